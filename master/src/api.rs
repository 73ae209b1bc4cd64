//! The API of the master: every kind over the store in its directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::auth::rbac::keep::Keeper;
use apiserver::auth::{Auth, Issuer, Signer};
use apiserver::kinds::KINDS;
use apiserver::registry::Registry;
use apiserver::storage::{Embedded, Limits};
use apiserver::{Api, write};
use axum::Router;
use serde_json::{Map, Value, json};

use crate::server::VERSION;

/// Where the store lies in the directory of the master.
const STORE: &str = "store";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Opens the store: what is served from it, and who may have it.
///
/// Tokens of service accounts are signed with `key` (PKCS #8) in the name of the issuer.
///
/// # Errors
/// When the store is taken, damaged or newer than this master; the message names the file and the remedy.
pub async fn open(data_dir: &Path, key: &[u8], issuer: Issuer) -> anyhow::Result<(Router, Arc<Auth>)> {
    let directory = data_dir.join(STORE);
    let in_store = || format!("cannot open the store in {}", directory.display());
    let store = Embedded::open(&directory, Limits::default()).await.with_context(in_store)?;
    let registry = Registry::open(Arc::new(store), KINDS).await.with_context(in_store)?;
    for name in NAMESPACES {
        let made = write::ensure(&registry, "namespaces", namespace(name)).await;
        made.with_context(|| format!("cannot make the namespace {name}"))?;
    }
    let store = registry.cache().clone();
    let signer = Signer::new(key).map_err(|fault| anyhow::anyhow!("pki/service-account.key {fault}"))?;
    let auth = Auth::new(store.clone(), signer, issuer);
    let api = Api::writable(registry, VERSION).router();
    let keeper = Keeper::new(api.clone(), store);
    keeper.keep_stock().await.map_err(anyhow::Error::msg)?;
    tokio::spawn(keeper.keep_aggregated());
    Ok((api, auth))
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
