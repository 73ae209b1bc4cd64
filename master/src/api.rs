//! The API of the master: every kind over its store.

use std::sync::Arc;

use anyhow::Context as _;
use apiserver::admission::{Admission, Depth, Namespaces, StillThere};
use apiserver::auth::rbac::keep::Keeper;
use apiserver::auth::{Auth, CertificateRequests, Grants, Issuer, Signer};
use apiserver::crd::{self, Definitions};
use apiserver::registry::Registry;
use apiserver::storage::Store;
use apiserver::{Api, Catalog, write};
use axum::Router;

use crate::admission::{self, Added};
use crate::options::NodeMode;
use crate::server::VERSION;

/// What is served from a store, and who may have it.
pub struct Served {
    /// Every path of the API.
    pub api: Router,
    /// Who may.
    pub auth: Arc<Auth>,
    /// What is counted of it.
    pub objects: Arc<Registry>,
}

/// Opens what is served from a store, and makes what every cluster has.
///
/// Tokens of service accounts are signed with `key` (PKCS #8) in the name of the issuer; new objects get what is added.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn open(
    store: Arc<dyn Store>,
    catalog: Catalog,
    key: &[u8],
    issuer: Issuer,
    added: Added,
) -> anyhow::Result<Served> {
    let registry = Registry::open(store, catalog).await.context("cannot read the store")?;
    crate::namespaces::ensure(&registry).await.context("cannot make the namespaces of the system")?;
    tokio::spawn(crate::namespaces::keep(Arc::downgrade(&registry)));
    for class in admission::system_classes() {
        let made = write::ensure(&registry, "priorityclasses", class).await;
        made.context("cannot make the priority classes of the system")?;
    }
    crd::start(&registry).await.context("cannot read the definitions of kinds")?;
    let cache = registry.cache().clone();
    let signer = Signer::new(key).map_err(|fault| anyhow::anyhow!("pki/service-account.key {fault}"))?;
    let auth = match added.nodes.mode {
        NodeMode::Open | NodeMode::Allowlist => Auth::new(cache.clone(), signer, issuer),
        NodeMode::Certificate => Auth::with_node_keys(cache.clone(), signer, issuer),
    };
    tokio::spawn(auth.clone().keep_up());
    let namespaces = Namespaces::new(registry.clone());
    let mut passes: Vec<Arc<dyn Admission>> = vec![
        namespaces.clone(),
        Arc::new(Depth),
        Definitions::new(registry.clone()),
        Grants::new(auth.clone()),
        CertificateRequests::new(auth.clone()),
    ];
    passes.extend(admission::all(&registry, &auth, added));
    passes.push(Arc::new(StillThere(namespaces)));
    let api = Api::writable(registry.clone(), passes, VERSION).router();
    let keeper = Keeper::new(api.clone(), cache);
    keeper.keep_stock().await.map_err(anyhow::Error::msg)?;
    tokio::spawn(keeper.keep_aggregated());
    Ok(Served { api, auth, objects: registry })
}
