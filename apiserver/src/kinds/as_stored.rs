//! What a kind does in a version that is a view of another: what it does as it is stored.

use api::strategy::{self, Cause, Json, Part, Strategy};

use crate::resource::View;

/// The logic of a stored kind, for objects that are shown through a view.
pub(super) struct AsStored<V> {
    /// Its group, empty for the core one.
    pub group: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// How it is shown.
    pub view: V,
}

impl<V: View> AsStored<V> {
    fn logic(&self) -> &'static dyn Strategy {
        strategy::of(self.group, self.kind)
    }

    /// Changes an object in the version that is stored.
    fn change(&self, object: &mut Json, change: impl FnOnce(&mut Json)) {
        let mut stored = self.view.stored(std::mem::take(object));
        change(&mut stored);
        *object = self.view.shown(stored);
    }
}

impl<V: View> Strategy for AsStored<V> {
    fn default(&self, object: &mut Json) {
        self.change(object, |object| self.logic().default(object));
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, part: &Part<'_>) {
        let before = before.cloned().map(|before| self.view.stored(before));
        self.change(object, |object| self.logic().prepare(object, before.as_ref(), part));
    }

    fn validate(&self, object: &Json, before: Option<&Json>, part: &Part<'_>) -> Vec<Cause> {
        let before = before.cloned().map(|before| self.view.stored(before));
        self.logic().validate(&self.view.stored(object.clone()), before.as_ref(), part)
    }

    fn warnings(&self, object: &Json) -> Vec<String> {
        self.logic().warnings(&self.view.stored(object.clone()))
    }
}
