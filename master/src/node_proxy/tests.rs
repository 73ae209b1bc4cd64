//! Tests of errors that need no kubelet: missing pods, pods without a node, and unknown nodes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::TcpListener;
use std::sync::Arc;

use apiserver::watch_cache::{Draft, WatchCache};
use axum::body::to_bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::*;
use crate::pki::Pki;

struct Bed {
    router: Router,
    _folder: TempDir,
}

impl Bed {
    /// A proxy whose node `n1` is at this local port.
    fn new(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Arc::new(Pki::open(folder.path(), Timestamp::now()).unwrap());
        let objects = WatchCache::new(1);
        let put = |resource: &str, object: Value| {
            let object = object.as_object().unwrap().clone();
            objects.put(resource, &Draft::new(&object, &[].into()));
        };
        let containers = json!([{"name": "a"}, {"name": "b"}]);
        for (name, spec) in [
            ("nowhere", json!({"containers": [{"name": "a"}]})),
            ("lost", json!({"nodeName": "gone", "containers": [{"name": "a"}]})),
            ("two", json!({"nodeName": "n1", "containers": containers})),
            ("web", json!({"nodeName": "n1", "containers": [{"name": "a"}]})),
            ("mute", json!({"nodeName": "mute", "containers": [{"name": "a"}]})),
        ] {
            put("pods", json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}));
        }
        for (name, address) in [("local", "127.0.0.1"), ("unborn", "")] {
            let spec = json!({"containers": [{"name": "a"}]});
            let status = json!({"podIP": address});
            put(
                "pods",
                json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": status}),
            );
        }
        let ports = json!([{"name": "http", "port": 80}]);
        put("services", json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"ports": ports}}));
        put("nodes", json!({"metadata": {"name": "mute"}}));
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        });
        put("nodes", json!({"metadata": {"name": "n1"}, "status": status}));
        let tls = BackendTls::new(tokio::sync::watch::channel(pki).1, Timestamp::now()).unwrap();
        let nodes = NodeProxy::new(objects, tls, AddressType::PREFERRED.to_vec());
        Self { router: nodes.router(), _folder: folder }
    }

    async fn send_request(&self, method: &str, path: &str) -> (u16, String, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        (code, text("reason"), text("message"))
    }
}

#[tokio::test]
async fn proxy_rejects_invalid_requests_without_calling_the_node() {
    // The port is closed again.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bed = Bed::new(port);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let several = "a container name must be specified for pod two, choose one of: [a b]";
    for (method, path, code, reason, message) in [
        ("GET", "pods/none/log", 404, "NotFound", "pods \"none\" not found"),
        ("POST", "pods/none/exec", 404, "NotFound", "pods \"none\" not found"),
        ("GET", "pods/nowhere/log", 204, "", ""),
        (
            "GET",
            "pods/nowhere/log?container=x",
            400,
            "BadRequest",
            "container x is not valid for pod nowhere",
        ),
        ("GET", "pods/nowhere/exec", 400, "BadRequest", "pod nowhere does not have a host assigned"),
        ("POST", "pods/nowhere/portforward", 400, "BadRequest", "pod nowhere does not have a host assigned"),
        ("GET", "pods/two/log", 400, "BadRequest", several),
        ("GET", "pods/two/attach", 400, "BadRequest", several),
        ("GET", "pods/lost/log", 404, "NotFound", "nodes \"gone\" not found"),
        ("GET", "pods/mute/log", 500, "", "no preferred addresses found; known addresses: []"),
        (
            "GET",
            "pods/web/log?tailLines=1",
            500,
            "",
            &format!("Get \"https://127.0.0.1:{port}/containerLogs/shop/web/a?tailLines=1\": {refused}"),
        ),
        ("POST", "pods/web/exec?command=ls", 500, "", &format!("error dialing backend: {refused}")),
        ("DELETE", "pods/web/exec", 405, "MethodNotAllowed", "the server does not allow this method"),
        ("GET", "pods/none/proxy/", 404, "NotFound", "pods \"none\" not found"),
        ("GET", "pods/http:web:x:/proxy/", 400, "BadRequest", "invalid pod request \"http:web:x:\""),
        (
            "PUT",
            "pods/unborn/proxy/",
            400,
            "BadRequest",
            "address not allowed: the pod \"unborn\" has none yet",
        ),
        ("GET", "pods/local:80/proxy/", 400, "BadRequest", "address not allowed: 127.0.0.1 of the pod"),
        ("TRACE", "pods/local:80/proxy/", 405, "MethodNotAllowed", "the server does not allow this method"),
        ("GET", "services/none/proxy/", 404, "NotFound", "services \"none\" not found"),
        ("GET", "services/ftp:web:/proxy/", 400, "BadRequest", "invalid service request \"ftp:web:\""),
        (
            "GET",
            "services/https:web:81/proxy/a",
            503,
            "ServiceUnavailable",
            "no service port 81 found for service \"web\"",
        ),
        (
            "GET",
            "services/web:80/proxy/a",
            503,
            "ServiceUnavailable",
            "no endpoints available for service \"web:80\"",
        ),
    ] {
        let response_text = bed.send_request(method, &format!("/api/v1/namespaces/shop/{path}")).await;
        assert_eq!(
            (response_text.0, response_text.1.as_str()),
            (code, reason),
            "{method} {path}: {response_text:?}"
        );
        assert!(response_text.2.starts_with(message), "{method} {path}: {response_text:?}");
    }
    for (path, code, message) in [
        ("gone/proxy/metrics", 404, "nodes \"gone\" not found".to_owned()),
        ("n1/proxy/metrics", 503, format!("error trying to reach service: {refused}")),
        ("n1:1/proxy/metrics", 400, format!("only the kubelet's port {port} of node n1 can be reached")),
        ("http:n1:1/proxy/", 400, "invalid node request \"http:n1:1\"".to_owned()),
    ] {
        let (found, _, response_text) = bed.send_request("GET", &format!("/api/v1/nodes/{path}")).await;
        assert_eq!((found, response_text.starts_with(&message)), (code, true), "{path}: {response_text}");
    }
}
