//! Namespaces that every cluster has are there from the start, and again when one has gone.

use std::sync::Weak;
use std::time::Duration;

use api::strategy::Json;
use apiserver::registry::Registry;
use apiserver::store::Scope;
use apiserver::{Status, write};
use serde_json::json;

/// Namespaces that every cluster has.
const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The name of namespaces in paths and in the store.
const NAMESPACES: &str = "namespaces";
/// Between two tries of what could not be written.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Makes those that are missing.
///
/// # Errors
/// What the store says.
pub async fn ensure(registry: &Registry) -> Result<(), Status> {
    for name in SYSTEM {
        write::ensure(registry, NAMESPACES, namespace(name)).await?;
    }
    Ok(())
}

/// Makes each again that goes, for as long as there is a registry.
pub async fn keep(registry: Weak<Registry>) {
    let Some(cache) = registry.upgrade().map(|registry| registry.cache().clone()) else { return };
    loop {
        // From before the look, so that none goes unseen after it.
        let watcher = cache.watch(NAMESPACES, Scope::All, cache.revision());
        let Some(there) = registry.upgrade() else { return };
        let made = ensure(&there).await;
        drop(there);
        match (made, watcher) {
            // Whatever it is that changed, or was forgotten: all of them are looked at anew.
            (Ok(()), Ok(mut watcher)) => drop(watcher.next().await),
            (Err(error), _) => {
                tracing::warn!(%error, "a namespace of the system could not be made; trying again");
                tokio::time::sleep(TRY_AGAIN).await;
            }
            (Ok(()), Err(_)) => tokio::time::sleep(TRY_AGAIN).await,
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
    //! Namespaces of the system that go.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::Arc;

    use apiserver::{Catalog, kinds, storage};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_that_goes_comes_back_and_others_do_not() {
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
                if seen.objects.len() == SYSTEM.len() {
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
