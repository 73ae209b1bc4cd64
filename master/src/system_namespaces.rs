//! The system namespace controller: creates the namespaces that every cluster has, and creates deleted ones again.

use std::sync::Weak;
use std::time::Duration;

use api::strategy::Json;
use apiserver::registry::Registry;
use apiserver::watch_cache::Scope;
use apiserver::{Status, write};
use serde_json::json;

const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The resource name of namespaces.
const NAMESPACES: &str = "namespaces";
/// Pause after a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Creates the missing system namespaces.
///
/// # Errors
/// If the store rejects a write.
pub async fn ensure(registry: &Registry) -> Result<(), Status> {
    for name in SYSTEM_NAMESPACES {
        write::ensure(registry, NAMESPACES, namespace(name)).await?;
    }
    Ok(())
}

/// Creates deleted system namespaces again, until the registry is dropped.
pub async fn keep(registry: Weak<Registry>) {
    let Some(cache) = registry.upgrade().map(|registry| registry.cache().clone()) else { return };
    loop {
        // The watch starts before the check, so that no deletion is missed.
        let watcher = cache.watch(NAMESPACES, Scope::All, cache.revision());
        let Some(there) = registry.upgrade() else { return };
        let made = ensure(&there).await;
        drop(there);
        match (made, watcher) {
            // Any change, or a failed watch, causes a new check.
            (Ok(()), Ok(mut watcher)) => drop(watcher.next().await),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot create a system namespace; retrying");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            (Ok(()), Err(_)) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    }
}

fn namespace(name: &str) -> Json {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
    });
    namespace.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Tests of system namespaces that are deleted.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::Arc;

    use apiserver::{Catalog, kinds, storage};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn deleted_system_namespaces_are_recreated() {
        let store = Arc::new(storage::Memory::new(storage::Limits::default()));
        let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
        ensure(&registry).await.unwrap();
        write::ensure(&registry, NAMESPACES, namespace("shop")).await.unwrap();
        tokio::spawn(keep(Arc::downgrade(&registry)));
        let row = registry.rows().find("", "v1", NAMESPACES).unwrap().clone();
        let cache = registry.cache().clone();
        for name in ["shop", "kube-node-lease", "default"] {
            let there = cache.get(NAMESPACES, "", name).unwrap();
            registry.delete(&row, &there).await.unwrap();
        }
        let back = async {
            loop {
                let seen = cache.list(NAMESPACES, &Scope::All);
                if seen.objects.len() == SYSTEM_NAMESPACES.len() {
                    return seen;
                }
                drop(cache.watch(NAMESPACES, Scope::All, seen.revision).unwrap().next().await);
            }
        };
        let seen = timeout(Duration::from_secs(10), back).await.unwrap();
        let mut names: Vec<&str> = seen.objects.iter().map(|object| object.name()).collect();
        names.sort_unstable();
        assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    }
}
