//! The API of the master: every kind over the store in its directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::admission::{Admission, Namespaces};
use apiserver::crd::{self, Definitions};
use apiserver::kinds;
use apiserver::registry::Registry;
use apiserver::storage::{Embedded, Limits};
use apiserver::{Api, Catalog, write};
use serde_json::{Map, Value, json};

use crate::server::VERSION;

/// Where the store lies in the directory of the master.
const STORE: &str = "store";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Opens the store and what is served from it.
///
/// # Errors
/// When the store is taken, damaged or newer than this master; the message names the file and the remedy.
pub async fn open(data_dir: &Path) -> anyhow::Result<Arc<Api>> {
    let directory = data_dir.join(STORE);
    let in_store = || format!("cannot open the store in {}", directory.display());
    let store = Embedded::open(&directory, Limits::default()).await.with_context(in_store)?;
    let registry =
        Registry::open(Arc::new(store), Catalog::new(kinds::all())).await.with_context(in_store)?;
    for name in NAMESPACES {
        let made = write::ensure(&registry, "namespaces", namespace(name)).await;
        made.with_context(|| format!("cannot make the namespace {name}"))?;
    }
    crd::start(&registry).await.with_context(in_store)?;
    let admission: Vec<Arc<dyn Admission>> =
        vec![Namespaces::new(registry.clone()), Definitions::new(registry.clone())];
    Ok(Api::writable(registry, admission, VERSION))
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
