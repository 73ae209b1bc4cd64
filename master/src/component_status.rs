//! The virtual resource `componentstatuses`: the health of store, controllers and scheduler, determined for each
//! request.
//!
//! The stock server probes local health ports. Here the leader may run on any machine, so its lease is read.

use std::pin::Pin;
use std::sync::Arc;

use apiserver::kinds;
use apiserver::watch_cache::{Draft, WatchCache};
use apiserver::{Api, Catalog, Resource, Status, VERSION};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderValue, Request, header};
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

use crate::objects;
use crate::objects::coordination::{Lease, LeaseSpec};

const PLURAL: &str = "componentstatuses";
const LEASES: &str = "leases.coordination.k8s.io";
/// Components with a leader-election lease in `kube-system`: component name and lease name.
const LEADERS: [(&str, &str); 2] =
    [("controller-manager", "kube-controller-manager"), ("scheduler", "kube-scheduler")];
/// The stock component name of the store.
const STORE: &str = "etcd-0";

/// The result of a store health check.
type Answer = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Serves `componentstatuses`.
pub struct ComponentStatuses {
    objects: WatchCache,
    catalog: Catalog,
    store: Box<dyn Fn() -> Answer + Send + Sync>,
}

impl ComponentStatuses {
    /// Creates the resource. It reads leases from the cache, and `answers` checks the store.
    pub fn new<F>(objects: WatchCache, answers: impl Fn() -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let catalog = Catalog::new(kinds::all().into_iter().filter(|row| row.plural == PLURAL));
        Arc::new(Self { objects, catalog, store: Box::new(move || Box::pin(answers())) })
    }

    /// The routes of the resource.
    pub fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/api/v1/componentstatuses", get(answer))
            .route("/api/v1/componentstatuses/{name}", get(answer))
            .method_not_allowed_fallback(|| async { Status::no_such_method() })
            .with_state(self)
    }

    async fn all(&self) -> Vec<Map<String, Value>> {
        let now = Timestamp::now();
        let mut all = vec![component(STORE, &(self.store)().await)];
        for (name, lease) in LEADERS {
            let found =
                self.objects.get(LEASES, "kube-system", lease).map(|lease| objects::decode(lease.json()));
            all.push(component(name, &leads(lease, &found.unwrap_or_default(), now)));
        }
        all
    }
}

/// Checks that a lease has a holder that renews it.
fn leads(name: &str, lease: &Lease, now: Timestamp) -> Result<(), String> {
    let LeaseSpec { holder_identity: holder, lease_duration_seconds, renew_time, .. } = &lease.spec;
    let lasts = lease_duration_seconds.unwrap_or_default().seconds();
    if holder.is_empty() {
        return Err(format!("the lease kube-system/{name} has no holder"));
    }
    // Without a time the lease counts as expired.
    let ends = renew_time.and_then(|at| at.checked_add(lasts).ok());
    let renewed = renew_time.map(api::time::micros).unwrap_or_default();
    match ends {
        Some(ends) if ends >= now => Ok(()),
        _ => Err(format!("{holder} has not renewed the lease kube-system/{name} since {renewed}")),
    }
}

fn component(name: &str, health: &Result<(), String>) -> Map<String, Value> {
    let (status, message) = match health {
        Ok(()) => ("True", "ok"),
        Err(why) => ("False", why.as_str()),
    };
    let conditions = json!([{"type": "Healthy", "status": status, "message": message}]);
    let object = json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
        "conditions": conditions});
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

async fn answer(State(components): State<Arc<ComponentStatuses>>, request: Request<Body>) -> Response {
    let revision = components.objects.revision();
    let shown = WatchCache::new(revision);
    let rows = components.catalog.rows();
    if let Some(row) = rows.find("", "v1", PLURAL) {
        let row: &Resource = row;
        for object in components.all().await {
            shown.put(row.stored(), &Draft::new(&object, &row.fields));
        }
    }
    let answer = Api::new(shown, components.catalog.clone(), VERSION).router().oneshot(request).await;
    let Ok(mut response) = answer;
    let warning = HeaderValue::from_static("299 - \"v1 ComponentStatus is deprecated in v1.19+\"");
    response.headers_mut().append(header::WARNING, warning);
    response
}

#[cfg(test)]
mod tests {
    //! Tests of ComponentStatuses as a client reads them.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::to_bytes;

    use super::*;

    async fn read(router: &Router, path: &str) -> Value {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let body = router.clone().oneshot(request).await.unwrap().into_body();
        serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn component_status_reports_the_store_and_the_leader_leases() {
        let objects = WatchCache::new(1);
        for (name, renewed) in [
            ("kube-scheduler", Timestamp::now().to_string()),
            ("kube-controller-manager", "2026-01-01T00:00:00Z".to_owned()),
        ] {
            let lease = json!({"metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"holderIdentity": "m", "renewTime": renewed, "leaseDurationSeconds": 60}});
            objects.put(LEASES, &Draft::new(lease.as_object().unwrap(), &[].into()));
        }
        let router = ComponentStatuses::new(objects, || async { Err("no answer".to_owned()) }).router();
        let list = read(&router, "/api/v1/componentstatuses").await;
        assert_eq!(list["kind"], "ComponentStatusList");
        let found = |at: usize| {
            let item = &list["items"][at];
            (item["metadata"]["name"].as_str().unwrap(), item["conditions"][0]["status"].as_str().unwrap())
        };
        // Sorted by name, like every list.
        assert_eq!(
            [found(0), found(1), found(2)],
            [("controller-manager", "False"), ("etcd-0", "False"), ("scheduler", "True")]
        );
        let one = read(&router, "/api/v1/componentstatuses/etcd-0").await;
        assert_eq!(
            one["conditions"],
            json!([{"type": "Healthy", "status": "False", "message": "no answer"}])
        );
        assert_eq!(read(&router, "/api/v1/componentstatuses/none").await["code"], 404);
    }
}
