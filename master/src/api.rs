//! Assembles the API: registry, authentication, admission plugins and built-in objects.

use std::sync::Arc;

use anyhow::Context as _;
use apiserver::auth::rbac::reconciler::RbacReconciler;
use apiserver::auth::{Auth, Issuer, Signer};
use apiserver::crd;
use apiserver::registry::Registry;
use apiserver::storage::Store;
use apiserver::tasks::Tasks;
use apiserver::{Api, Catalog, VERSION, write};
use axum::Router;

use crate::admission::{AdmissionConfig, plugins, system_classes};
use crate::options::NodeMode;

/// The assembled API.
pub struct Served {
    /// Router of all API paths.
    pub api: Router,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// The registry of all resources.
    pub objects: Arc<Registry>,
    /// The tasks that run beside the requests.
    pub tasks: Tasks,
}

/// Opens the registry on a store, and creates the objects that every cluster has.
///
/// Service account tokens are signed with `key` (PKCS #8) for the issuer.
///
/// # Errors
/// If the store cannot be read or written.
pub async fn open(
    store: Arc<dyn Store>,
    catalog: Catalog,
    key: &[u8],
    issuer: Issuer,
    admission: AdmissionConfig,
) -> anyhow::Result<Served> {
    let registry = Registry::open(store, catalog).await.context("cannot read the store")?;
    crate::system_namespaces::ensure(&registry).await.context("cannot create the system namespaces")?;
    let mut tasks = Tasks::default();
    tasks.spawn("system namespaces", crate::system_namespaces::keep(Arc::downgrade(&registry)));
    for class in system_classes() {
        let made = write::ensure(&registry, "priorityclasses", class).await;
        made.context("cannot create the system priority classes")?;
    }
    crd::start(&registry).await.context("cannot read the CustomResourceDefinitions")?;
    let cache = registry.cache().clone();
    let signer = Signer::new(key).map_err(|fault| anyhow::anyhow!("pki/service-account.key {fault}"))?;
    let auth = match admission.nodes.mode {
        NodeMode::Open | NodeMode::Allowlist => Auth::new(cache.clone(), signer, issuer),
        NodeMode::Certificate => Auth::with_node_keys(cache.clone(), signer, issuer),
    };
    tasks.spawn("node authorizer", auth.clone().run_sync());
    let plugins = plugins(&registry, &auth, admission);
    let api = Api::writable(registry.clone(), plugins, VERSION).router();
    let reconciler = RbacReconciler::new(api.clone(), cache);
    reconciler.reconcile_bootstrap_policy().await.map_err(anyhow::Error::msg)?;
    tasks.spawn("ClusterRole aggregation", reconciler.run_aggregation());
    Ok(Served { api, auth, objects: registry, tasks })
}
