//! Strategy of a served version that is converted to another, stored version.

use api::strategy::{Cause, DefaultsTooLarge, Json, Part, Strategy};

use crate::resource::Conversion;

/// Converts an object to the stored version, and runs the strategy of the stored kind on it.
pub(super) struct ConvertedStrategy<V> {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The stored kind.
    pub kind: &'static str,
    /// Conversion between the served and the stored version.
    pub conversion: V,
}

impl<V: Conversion> ConvertedStrategy<V> {
    fn strategy(&self) -> &'static dyn Strategy {
        api::strategy::of(self.group, self.kind)
    }

    /// Runs `change` on the stored version of an object.
    fn change<T>(&self, object: &mut Json, change: impl FnOnce(&mut Json) -> T) -> T {
        let mut stored = self.conversion.to_stored(std::mem::take(object));
        let changed = change(&mut stored);
        *object = self.conversion.to_served(stored);
        changed
    }
}

impl<V: Conversion> Strategy for ConvertedStrategy<V> {
    fn default(&self, object: &mut Json) -> Result<(), DefaultsTooLarge> {
        self.change(object, |object| self.strategy().default(object))
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, part: &Part<'_>) {
        let before = before.cloned().map(|before| self.conversion.to_stored(before));
        self.change(object, |object| self.strategy().prepare(object, before.as_ref(), part));
    }

    fn validate(&self, object: &Json, before: Option<&Json>, part: &Part<'_>) -> Vec<Cause> {
        let before = before.cloned().map(|before| self.conversion.to_stored(before));
        self.strategy().validate(&self.conversion.to_stored(object.clone()), before.as_ref(), part)
    }

    fn warnings(&self, object: &Json) -> Vec<String> {
        self.strategy().warnings(&self.conversion.to_stored(object.clone()))
    }
}
