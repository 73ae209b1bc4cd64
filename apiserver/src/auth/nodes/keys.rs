//! Public keys that are registered for nodes, in an annotation of the Node. Only the control plane writes it. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::auth::synced_index;
use crate::watch_cache;

/// Node annotation with the registered keys: SHA-256 of the SubjectPublicKeyInfo in hex, separated by commas.
pub const KEYS: &str = "coracle.io/public-keys";
/// Maximum number of keys per node: the current one, and earlier ones that stay valid until the node uses the new
/// one.
pub const MAX_KEYS: usize = 4;

/// The keys that are registered at a Node.
pub fn of_node(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let text = node.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(KEYS)?.as_str());
    of_annotation(text.unwrap_or_default())
}

/// The keys in the value of the annotation [`KEYS`].
pub fn of_annotation(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|key| !key.is_empty()).take(MAX_KEYS)
}

/// Registered keys by node name.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, Vec<String>>);

impl Keys {
    /// Whether the key is registered for the node.
    pub fn has(&self, node: &str, key: &str) -> bool {
        self.0.get(node).is_some_and(|keys| keys.iter().any(|own| own == key))
    }
}

impl synced_index::Index for Keys {
    type Kind = ();
    const KINDS: &'static [()] = &[()];

    fn resource((): ()) -> String {
        "nodes".to_owned()
    }

    fn upsert(&mut self, (): (), node: &watch_cache::Object) {
        let keys = of_node(&node.decode()).map(str::to_owned).collect();
        self.0.insert(node.name().to_owned(), keys);
    }

    fn remove(&mut self, (): (), _: &str, name: &str) {
        self.0.remove(name);
    }
}
