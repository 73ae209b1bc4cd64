//! Reads what admission decides by: objects in the registry's cache, now or as soon as they are there.

use std::sync::Arc;
use std::time::Duration;

use api::strategy::Json;
use apiserver::registry::Registry;
use apiserver::store::Scope;
use tokio::time::Instant;

/// Reads the registry's cache.
#[derive(Clone)]
pub struct Lookup {
    registry: Arc<Registry>,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

impl Lookup {
    /// Of that registry.
    pub fn of(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// One object; the namespace of what lies in none is empty.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Json> {
        self.registry.cache().get(resource, namespace, name).map(|object| object.decode())
    }

    /// All objects of a namespace, or of all for what lies in none.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Json> {
        let scope = namespace.map_or(Scope::All, |namespace| Scope::Namespace(namespace.to_owned()));
        let listing = self.registry.cache().list(resource, &scope);
        listing.objects.iter().map(|object| object.decode()).collect()
    }

    /// Looks until there is something to see, or the time is up.
    pub async fn wait<T>(
        &self,
        resource: &str,
        namespace: &str,
        within: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + within;
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
