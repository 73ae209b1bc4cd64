//! The schema, conversion and strategy of a resource row.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use api::field_error::FieldError;
use api::shape::Shape;
use api::strategy::{Cause, DefaultsTooLarge, Json, Part, Strategy};
use serde_json::{Map, Value};

/// Schema of a kind that is not built in, such as a custom resource.
pub trait Schema: Send + Sync {
    /// Merge and ownership rules of the fields.
    fn shape(&self) -> Shape<'_>;

    /// Removes unknown fields and returns their paths (`spec.containers[0].imagee`).
    fn prune(&self, object: &mut Map<String, Value>) -> Vec<String>;

    /// Normalizes values to their stored form, and returns errors for values of the wrong type.
    fn fit(&self, _object: &mut Map<String, Value>) -> Vec<FieldError> {
        Vec::new()
    }

    /// JSON schema for OpenAPI, or `None` for an arbitrary object.
    fn json(&self) -> Option<Arc<Value>> {
        None
    }

    /// Returns a number that changes whenever [`Schema::json`] changes. It is computed for every request of the
    /// OpenAPI index.
    fn edition(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.json().hash(&mut hasher);
        hasher.finish()
    }
}

/// Converts between a served version and the stored one, including `apiVersion` and `kind`.
pub trait Conversion: Send + Sync {
    /// Converts a stored object to the served version.
    fn to_served(&self, stored: Map<String, Value>) -> Map<String, Value>;

    /// Converts a served object to the stored version.
    fn to_stored(&self, shown: Map<String, Value>) -> Map<String, Value>;
}

/// The strategy of a kind, built in or built at run time.
#[derive(Clone)]
pub enum StrategyRef {
    /// A built-in strategy.
    BuiltIn(&'static dyn Strategy),
    /// A strategy built at run time.
    Own(Arc<dyn Strategy>),
}

impl Deref for StrategyRef {
    type Target = dyn Strategy;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(strategy) => *strategy,
            Self::Own(strategy) => &**strategy,
        }
    }
}

/// The strategy of a served version that is not the stored one. It converts an object to the stored version, and runs
/// the strategy of the stored kind on it.
pub struct ConvertedStrategy<V> {
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
