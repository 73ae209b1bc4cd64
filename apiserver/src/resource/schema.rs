//! What a row brings along when its kind is not built in, or not stored as it is shown.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use api::fault::Fault;
use api::shape::Shape;
use api::strategy::Strategy;
use serde_json::{Map, Value};

/// What the fields of a kind are, where the table of all types does not know: a CustomResourceDefinition's.
pub trait Schema: Send + Sync {
    /// How its fields merge and who may own them.
    fn shape(&self) -> Shape<'_>;

    /// Takes out every field that the kind does not have and returns their paths (`spec.containers[0].imagee`).
    fn prune(&self, object: &mut Map<String, Value>) -> Vec<String>;

    /// Brings an object into the form that is stored, and returns the values that are of another type than their field.
    fn fit(&self, _object: &mut Map<String, Value>) -> Vec<Fault> {
        Vec::new()
    }

    /// The JSON schema of an object, for the OpenAPI documents; `None` when nothing is told but that it is an object.
    fn json(&self) -> Option<Arc<Value>> {
        None
    }

    /// Another number whenever [`Schema::json`] is another: asked for with every list of the documents.
    fn edition(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.json().hash(&mut hasher);
        hasher.finish()
    }
}

/// Another version of a stored kind: both ways take `apiVersion` and `kind` along.
pub trait View: Send + Sync {
    /// A stored object as this version shows it.
    fn shown(&self, stored: Map<String, Value>) -> Map<String, Value>;

    /// An object of this version as it is stored.
    fn stored(&self, shown: Map<String, Value>) -> Map<String, Value>;

    /// What a field that selectors ask for in this version is called in what is stored.
    fn stored_field(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// What a kind does beyond being stored.
#[derive(Clone)]
pub enum Logic {
    /// As the program says.
    BuiltIn(&'static dyn Strategy),
    /// As whoever defined the kind says.
    Own(Arc<dyn Strategy>),
}

impl Deref for Logic {
    type Target = dyn Strategy;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(strategy) => *strategy,
            Self::Own(strategy) => &**strategy,
        }
    }
}
