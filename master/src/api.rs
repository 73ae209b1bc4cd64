//! The API of the master: every kind over its store.

use std::sync::Arc;

use anyhow::Context as _;
use apiserver::admission::{Admission, Namespaces};
use apiserver::registry::Registry;
use apiserver::storage::Store;
use apiserver::{Api, Catalog, write};
use serde_json::{Map, Value, json};

use crate::server::VERSION;

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Opens what is served from a store, and makes what every cluster has.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn open(store: Arc<dyn Store>, catalog: Catalog) -> anyhow::Result<(Arc<Api>, Arc<Registry>)> {
    let registry = Registry::open(store, catalog).await.context("cannot read the store")?;
    for name in NAMESPACES {
        let made = write::ensure(&registry, "namespaces", namespace(name)).await;
        made.with_context(|| format!("cannot make the namespace {name}"))?;
    }
    let admission: Vec<Arc<dyn Admission>> = vec![Namespaces::new(registry.clone())];
    Ok((Api::writable(registry.clone(), admission, VERSION), registry))
}

fn namespace(name: &str) -> Map<String, Value> {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
    });
    namespace.as_object().cloned().unwrap_or_default()
}
