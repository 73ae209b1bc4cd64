//! Attributes of requests, and the exact Forbidden messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::request::{ListOptions, Target};
use proptest::prelude::*;

/// `verb group/version resource/subresource name@namespace`, or `verb path`.
fn shown(method: &str, path: &str) -> String {
    let method: Method = method.parse().unwrap();
    let Attributes { verb, on } = Attributes::of(&method, &path.parse().unwrap()).unwrap();
    match on {
        On::Path(path) => format!("{verb} {path}"),
        On::Resource(on) => format!(
            "{verb} {}/{} {}/{} {}@{}",
            on.group, on.version, on.resource, on.subresource, on.name, on.namespace
        ),
    }
}

#[test]
fn attributes_describe_the_request() {
    for (method, path, expected) in [
        ("GET", "/", "get /"),
        ("GET", "/healthz", "get /healthz"),
        ("POST", "/version", "post /version"),
        ("GET", "/api", "get /api"),
        ("GET", "/api/v1", "get /api/v1"),
        ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
        ("GET", "/openapi/v3/apis/apps/v1", "get /openapi/v3/apis/apps/v1"),
        ("GET", "/api/v1/pods", "list /v1 pods/ @"),
        ("HEAD", "/api/v1/pods/", "list /v1 pods/ @"),
        ("GET", "/api/v1/pods?watch=true", "watch /v1 pods/ @"),
        ("GET", "/api/v1/pods?watch=1&watch=0", "list /v1 pods/ @"),
        ("GET", "/api/v1/pods?watch", "watch /v1 pods/ @"),
        ("GET", "/api/v1/namespaces/d/pods/a", "get /v1 pods/ a@d"),
        ("GET", "/api/v1/namespaces/d/pods/a?watch=true", "watch /v1 pods/ a@d"),
        ("GET", "/api/v1/namespaces/d/pods/a/log?watch=true", "get /v1 pods/log a@d"),
        ("GET", "/api/v1/namespaces/d/pods/a/proxy/b/c", "get /v1 pods/proxy a@d"),
        ("GET", "/%61pi/v1/namespaces/d/pods", "list /v1 pods/ @d"),
        ("GET", "/api/v1/namespaces/d/pods?fieldSelector=metadata.name%3Da", "list /v1 pods/ a@d"),
        ("GET", "/api/v1/namespaces/d/pods?fieldSelector=metadata.name!%3Da", "list /v1 pods/ @d"),
        ("GET", "/api/v1/namespaces/d/pods?fieldSelector=spec.nodeName%3Da", "list /v1 pods/ @d"),
        ("DELETE", "/api/v1/namespaces/d/pods", "deletecollection /v1 pods/ @d"),
        ("DELETE", "/apis/apps/v1/namespaces/d/deployments/a", "delete apps/v1 deployments/ a@d"),
        ("POST", "/api/v1/namespaces/d/pods", "create /v1 pods/ @d"),
        ("POST", "/api/v1/namespaces/d/serviceaccounts/a/token", "create /v1 serviceaccounts/token a@d"),
        ("PUT", "/api/v1/namespaces/d/pods/a/status", "update /v1 pods/status a@d"),
        ("PATCH", "/api/v1/nodes/n", "patch /v1 nodes/ n@"),
        ("GET", "/api/v1/namespaces", "list /v1 namespaces/ @"),
        ("GET", "/api/v1/namespaces/d", "get /v1 namespaces/ d@d"),
        ("PUT", "/api/v1/namespaces/d/finalize", "update /v1 namespaces/finalize d@d"),
        ("OPTIONS", "/api/v1/pods", "options /v1 pods/ @"),
    ] {
        assert_eq!(shown(method, path), expected, "{method} {path}");
    }
    assert_eq!(Attributes::of(&Method::GET, &"/api/v1/pods/%ff".parse().unwrap()).unwrap_err().code, 400);
}

#[test]
fn watch_request_has_the_verb_watch() {
    for value in ["", "0", "1", "f", "F", "t", "true", "True", "FALSE", "no"] {
        let path = format!("/api/v1/pods?watch={value}");
        let watches = ListOptions::parse(&path.parse().unwrap(), false).unwrap().watch;
        assert_eq!(shown("GET", &path).starts_with("watch "), watches, "{path}");
    }
}

#[test]
fn exec_over_websocket_also_requires_the_verb_create() {
    let also_required = |path: &str| {
        let attributes = Attributes::of(&Method::GET, &path.parse().unwrap()).unwrap();
        attributes.also_required().map(|also_required| also_required.verb)
    };
    for part in ["exec", "attach", "portforward"] {
        assert_eq!(also_required(&format!("/api/v1/namespaces/d/pods/a/{part}")).as_deref(), Some("create"));
    }
    assert_eq!(also_required("/api/v1/namespaces/d/pods/a/log"), None);
    assert_eq!(also_required("/apis/x/v1/namespaces/d/pods/a/exec"), None);
}

#[test]
fn forbidden_messages_equal_those_of_the_stock_server() {
    let joe = Identity::authenticated("joe", []);
    let refused = |method: &str, path: &str| {
        let attributes = Attributes::of(&method.parse().unwrap(), &path.parse().unwrap()).unwrap();
        attributes.refused(&joe, "").message
    };
    for (method, path, expected) in [
        (
            "GET",
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/d/deployments/web/scale",
            r#"deployments.apps "web" is forbidden: User "joe" cannot patch resource "deployments/scale" in API group "apps" in the namespace "d""#,
        ),
        (
            "GET",
            "/api/v1/nodes",
            r#"nodes is forbidden: User "joe" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/api/v1/watch/namespaces/a/pods",
            r#"pods is forbidden: User "joe" cannot watch resource "pods" in API group "" in the namespace "a""#,
        ),
        ("GET", "/metrics", r#"forbidden: User "joe" cannot get path "/metrics""#),
    ] {
        assert_eq!(refused(method, path), expected);
    }
}

proptest! {
    /// Routing and authorization see the same resource and names.
    #[test]
    fn attributes_equal_the_parsed_request_target(path in "(/(api|apis|%61pi|v1|apps|namespaces|pods|status|a|%2f|%41||watch)){0,8}/?") {
        let uri: Uri = if path.is_empty() { "/".parse().unwrap() } else { path.parse().unwrap() };
        let attributes = Attributes::of(&Method::PUT, &uri).unwrap();
        if let Some(Target::Objects(objects)) = Target::parse(&path) {
            let On::Resource(on) = attributes.on else { panic!("{path} is one of a resource") };
            prop_assert_eq!(&on.group, &objects.group);
            prop_assert_eq!(&on.version, &objects.version);
            prop_assert_eq!(&on.resource, &objects.plural);
            prop_assert_eq!(&on.name, &objects.name.unwrap_or_default());
            prop_assert_eq!(&on.subresource, &objects.subresource.unwrap_or_default());
            if let Some(namespace) = objects.namespace {
                prop_assert_eq!(&on.namespace, &namespace);
            }
        }
    }
}
