//! Which keys a node was let in with: noted at its Node by the master alone. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::auth::follow;
use crate::store;

/// The annotation of a Node that holds them: SHA-256 of public keys (SubjectPublicKeyInfo), in hex, with commas between.
pub const KEYS: &str = "coracle.io/public-keys";
/// Most keys of one node: that of its certificate, and those it had before, which it may show until it has taken up the new one.
pub const MOST_KEYS: usize = 4;

/// The keys that a Node names.
pub fn of_node(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let text = node.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(KEYS)?.as_str());
    text.unwrap_or_default().split(',').map(str::trim).filter(|key| !key.is_empty()).take(MOST_KEYS)
}

/// The keys of all nodes, by their names.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, Vec<String>>);

impl Keys {
    /// Whether a node was let in with that key.
    pub fn has(&self, node: &str, key: &str) -> bool {
        self.0.get(node).is_some_and(|keys| keys.iter().any(|own| own == key))
    }
}

impl follow::Index for Keys {
    type Kind = ();
    const KINDS: &'static [()] = &[()];

    fn resource((): ()) -> String {
        "nodes".to_owned()
    }

    fn take_in(&mut self, (): (), node: &store::Object) {
        let keys = of_node(&node.decode()).map(str::to_owned).collect();
        self.0.insert(node.name().to_owned(), keys);
    }

    fn forget(&mut self, (): (), _: &str, name: &str) {
        self.0.remove(name);
    }
}
