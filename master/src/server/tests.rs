//! Tests of authorization and of health endpoints.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use apiserver::auth::rbac::bootstrap_policy;
use apiserver::auth::{Auth, Issuer, Signer};
use apiserver::watch_cache::{Draft, WatchCache};
use apiserver::{Identity, VERSION};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use http::Request;
use serde_json::Value;
use tower::ServiceExt as _;

use super::{Checks, no_api, router};

async fn send_request(router: &Router, who: Option<Identity>, method: &str, path: &str) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    let response = router.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Authorization with the stock roles.
fn auth() -> Arc<Auth> {
    let store = WatchCache::new(1);
    for (kind, object) in bootstrap_policy::objects() {
        store.put(&kind.qualified(), &Draft::new(&object, &[].into()));
    }
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    Auth::new(
        store,
        signer,
        Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() },
    )
}

fn healthy() -> Router {
    router(no_api(), &Arc::new(Checks::new()), &auth())
}

#[tokio::test]
async fn anonymous_user_can_read_only_health_and_version() {
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    let jane = Identity::authenticated("jane", ["dev".to_owned()]);
    let check = async |path: &str, anonymous: u16, known: u16, master: u16| {
        let router = healthy();
        assert_eq!(send_request(&router, None, "GET", path).await.0, anonymous, "anonymous {path}");
        assert_eq!(
            send_request(&router, Some(Identity::anonymous()), "GET", path).await.0,
            anonymous,
            "{path}"
        );
        assert_eq!(send_request(&router, Some(jane.clone()), "GET", path).await.0, known, "jane {path}");
        assert_eq!(send_request(&router, Some(admin.clone()), "GET", path).await.0, master, "admin {path}");
    };
    for open in ["/livez", "/readyz?verbose", "/healthz", "/version"] {
        check(open, 200, 200, 200).await;
    }
    // Single checks need a role for monitoring.
    check("/livez/ping", 403, 403, 200).await;
    check("/livez/nothing", 403, 403, 404).await;
    check("/api", 403, 404, 404).await;
    for closed in ["/", "/metrics", "/livez/", "/livez/ping/x", "//version", "/version/x", "/api/v1/pods"] {
        check(closed, 403, 403, 404).await;
    }
}

#[tokio::test]
async fn rejected_requests_get_a_status_object() {
    let (_, body) = send_request(&healthy(), None, "DELETE", "/api/v1/pods?watch=1").await;
    let status: Value = serde_json::from_str(&body).unwrap();
    let expected = "pods is forbidden: User \"system:anonymous\" cannot deletecollection resource \"pods\" in API group \"\" \
                    at the cluster scope";
    assert_eq!(status["message"], expected);
    assert_eq!((&status["reason"], &status["kind"]), (&"Forbidden".into(), &"Status".into()));
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    let (code, body) = send_request(&healthy(), Some(admin), "POST", "/version").await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["reason"]), (405, &"MethodNotAllowed".into()));
    let (_, body) = send_request(&healthy(), None, "GET", "/version").await;
    let version: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&version["major"], &version["minor"]), (&VERSION.major.into(), &VERSION.minor.into()));
    assert_eq!(version["gitVersion"], VERSION.git_version);
}

#[tokio::test]
async fn health_endpoint_names_a_failed_check_without_its_reason() {
    let checks = Checks::new()
        .store_when("etcd", || async { Err("no member answers".to_owned()) })
        .ready("store", || Err("disk is on fire".to_owned()));
    let router = router(no_api(), &Arc::new(checks), &auth());
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    for (path, code, body) in [
        ("/livez", 200, "ok"),
        // A restart of the server does not repair its store.
        (
            "/livez?verbose",
            200,
            "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nlivez check passed\n",
        ),
        ("/healthz", 500, "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nhealthz check failed\n"),
        ("/healthz?exclude=etcd", 200, "ok"),
        ("/livez/etcd", 500, "internal server error: check etcd failed: reason withheld\n"),
        (
            "/readyz?exclude=etcd",
            500,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[-]store failed: reason withheld\nreadyz check failed\n",
        ),
        (
            "/readyz?exclude=store&exclude=etcd&exclude=none&verbose=",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]store excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"none\"\nreadyz check passed\n",
        ),
        ("/readyz/store", 500, "internal server error: check store failed: reason withheld\n"),
    ] {
        assert_eq!(
            send_request(&router, Some(admin.clone()), "GET", path).await,
            (code, body.to_owned()),
            "{path}"
        );
    }
    assert_eq!(send_request(&router, Some(admin), "GET", "/livez/store").await.0, 404);
}

/// The lines that the stock end-to-end test "health handlers should contain necessary checks" looks for.
#[tokio::test]
async fn health_endpoint_lists_the_checks_of_the_stock_server() {
    let checks = Checks::serving().store_when("etcd", || async { Ok(()) });
    let router = router(no_api(), &Arc::new(checks), &auth());
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    for (path, own) in [("/healthz", None), ("/livez", None), ("/readyz", Some("informer-sync"))] {
        let (code, body) =
            send_request(&router, Some(admin.clone()), "GET", &format!("{path}?verbose=1")).await;
        let lines: Vec<&str> = body.lines().collect();
        for name in [
            "ping",
            "log",
            "etcd",
            "poststarthook/start-kube-apiserver-admission-initializer",
            "poststarthook/generic-apiserver-start-informers",
            "poststarthook/start-apiextensions-informers",
            "poststarthook/start-apiextensions-controllers",
            "poststarthook/crd-informer-synced",
            "poststarthook/bootstrap-controller",
            "poststarthook/start-system-namespaces-controller",
            "poststarthook/scheduling/bootstrap-system-priority-classes",
            "poststarthook/start-cluster-authentication-info-controller",
            "poststarthook/start-kube-aggregator-informers",
            "poststarthook/apiservice-registration-controller",
            "poststarthook/apiservice-status-available-controller",
            "poststarthook/kube-apiserver-autoregistration",
            "autoregister-completion",
            "poststarthook/apiservice-openapi-controller",
        ]
        .into_iter()
        .chain(own)
        {
            assert!(
                code == 200 && lines.contains(&format!("[+]{name} ok").as_str()),
                "{path}: {name}: {body}"
            );
        }
    }
    let (code, _) =
        send_request(&router, Some(admin), "GET", "/livez/poststarthook/crd-informer-synced").await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn router_serves_only_authorized_clients() {
    let api = Router::new().route("/api", get(|| async { "the API" }));
    let router = router(api, &Arc::new(Checks::new()), &auth());
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    assert_eq!(send_request(&router, Some(admin), "GET", "/api").await, (200, "the API".to_owned()));
    assert_eq!(send_request(&router, None, "GET", "/api").await.0, 403);
}
