//! The lister of admission plugins. It reads objects from the watch cache, and can wait until they appear.

use std::sync::Arc;
use std::time::Duration;

use apiserver::registry::Registry;
use apiserver::watch_cache::Scope;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::objects;

/// Reads the watch cache of a registry.
#[derive(Clone)]
pub struct Lister {
    registry: Arc<Registry>,
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl Lister {
    /// Creates a lister of a registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Gets the fields of `T` of one object. `namespace` is empty for cluster-scoped objects.
    pub fn get<T: DeserializeOwned + Default>(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<T> {
        let found = self.registry.cache().get(resource, namespace, name);
        found.map(|object| objects::decode(object.json()))
    }

    /// Lists the objects of a namespace, or of all namespaces if it is `None`.
    pub fn list<T: DeserializeOwned + Default>(&self, resource: &str, namespace: Option<&str>) -> Vec<T> {
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        let listing = self.registry.cache().list(resource, &scope);
        listing.objects.iter().map(|object| objects::decode(object.json())).collect()
    }

    /// Repeats `look` after each change until it returns a value or the timeout expires.
    pub async fn wait_for<T>(
        &self,
        resource: &str,
        namespace: &str,
        timeout: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + timeout;
        let cache = self.registry.cache();
        let mut watcher =
            cache.watch(resource, Scope::Namespace(namespace.to_owned()), cache.revision()).ok();
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            let changed = tokio::time::timeout_at(end, watcher.as_mut()?.next()).await;
            if !matches!(changed, Ok(Ok(_))) {
                return look();
            }
        }
    }
}
