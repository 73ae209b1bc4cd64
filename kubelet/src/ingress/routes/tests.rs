//! The examples of the Ingress page of the Kubernetes documentation, and choices between rules.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use super::*;
use crate::cluster::ingresses::{Backend, IngressPath, Paths as PathsOfRule, Rule};
use crate::cluster::services::{Endpoint, EndpointPort, EndpointSlice, Service, ServicePort};

fn backend(service: &str) -> Backend {
    let port = BackendPort { number: 80, ..BackendPort::default() };
    Backend { service: Some(ServiceBackend { name: service.into(), port }) }
}

fn rule(host: &str, paths: &[(PathType, &str)]) -> Rule {
    let path = |(path_type, path): &(PathType, &str)| IngressPath {
        path: (*path).into(),
        path_type: *path_type,
        backend: backend("web"),
    };
    Rule { host: host.into(), http: PathsOfRule { paths: paths.iter().map(path).collect() } }
}

/// Routes of Ingresses that are named after their position, with increasing creation times.
fn routes(ingresses: Vec<Ingress>) -> Routes {
    let named = ingresses.into_iter().enumerate().map(|(at, one)| {
        let one = Ingress { created: format!("2026-01-01T00:00:0{at}Z").into(), ..one };
        (NamespacedName::new("shop", &at.to_string()), Arc::new(one))
    });
    let snapshot =
        IngressSnapshot { is_known: true, ingresses: named.collect(), ..IngressSnapshot::default() };
    Routes::new(&snapshot, &ServiceSnapshot::default(), 0)
}

/// One Ingress per rule, so that the name of the Ingress shows which rule matched.
fn of_rules(rules: Vec<Rule>) -> Routes {
    routes(rules.into_iter().map(|rule| Ingress { rules: vec![rule], ..Ingress::default() }).collect())
}

fn found(routes: &Routes, host: &str, path: &str) -> Option<String> {
    routes.find(host, path).map(|route| route.ingress.name.to_string())
}

#[test]
fn paths_match_as_in_the_table_of_the_documentation() {
    use PathType::{Exact, Prefix};
    // The kind, the paths, the request path, and the path that matches.
    let table: &[(PathType, &[&str], &str, Option<&str>)] = &[
        (Prefix, &["/"], "/any/path", Some("/")),
        (Exact, &["/foo"], "/foo", Some("/foo")),
        (Exact, &["/foo"], "/bar", None),
        (Exact, &["/foo"], "/foo/", None),
        (Exact, &["/foo/"], "/foo", None),
        (Prefix, &["/foo"], "/foo", Some("/foo")),
        (Prefix, &["/foo"], "/foo/", Some("/foo")),
        (Prefix, &["/foo/"], "/foo", Some("/foo/")),
        (Prefix, &["/foo/"], "/foo/", Some("/foo/")),
        (Prefix, &["/aaa/bb"], "/aaa/bbb", None),
        (Prefix, &["/aaa/bbb"], "/aaa/bbb", Some("/aaa/bbb")),
        (Prefix, &["/aaa/bbb/"], "/aaa/bbb", Some("/aaa/bbb/")),
        (Prefix, &["/aaa/bbb"], "/aaa/bbb/", Some("/aaa/bbb")),
        (Prefix, &["/aaa/bbb"], "/aaa/bbb/ccc", Some("/aaa/bbb")),
        (Prefix, &["/aaa/bbb"], "/aaa/bbbxyz", None),
        (Prefix, &["/", "/aaa"], "/aaa/ccc", Some("/aaa")),
        (Prefix, &["/", "/aaa", "/aaa/bbb"], "/aaa/bbb", Some("/aaa/bbb")),
        (Prefix, &["/", "/aaa", "/aaa/bbb"], "/ccc", Some("/")),
        (Prefix, &["/aaa"], "/ccc", None),
    ];
    for (kind, paths, request, expected) in table {
        let routes = of_rules(paths.iter().map(|path| rule("", &[(*kind, path)])).collect());
        let expected = expected.map(|path| paths.iter().position(|one| *one == path).unwrap().to_string());
        assert_eq!(found(&routes, "a.example", request), expected, "{kind:?} {paths:?} {request}");
    }
    let mixed = of_rules(vec![rule("", &[(Prefix, "/foo")]), rule("", &[(Exact, "/foo")])]);
    assert_eq!(found(&mixed, "", "/foo").as_deref(), Some("1"), "an exact path precedes a prefix");
}

#[test]
fn wildcard_hosts_match_one_label_as_in_the_documentation() {
    let routes = of_rules(vec![rule("*.foo.com", &[(PathType::Prefix, "/")])]);
    for (host, matches) in [("bar.foo.com", true), ("baz.bar.foo.com", false), ("foo.com", false)] {
        assert_eq!(found(&routes, host, "/").is_some(), matches, "{host}");
    }
}

#[test]
fn hosts_precede_wildcards_and_these_precede_rules_without_a_host() {
    let all = [(PathType::Prefix, "/")];
    let routes = of_rules(vec![
        rule("", &all),
        rule("*.foo.com", &all),
        rule("A.foo.com", &[(PathType::Prefix, "/own")]),
    ]);
    for (host, path, expected) in [
        ("a.foo.com", "/own/x", "2"),
        ("a.foo.com.", "/own", "2"),
        ("a.foo.com", "/", "1"),
        ("b.foo.com", "/own", "1"),
        ("other", "/own", "0"),
    ] {
        assert_eq!(found(&routes, host, path).as_deref(), Some(expected), "{host}{path}");
    }
}

#[test]
fn the_older_ingress_wins_and_its_default_backend_gets_the_rest() {
    let one = |path| Ingress {
        rules: vec![rule("a", &[(PathType::Exact, path), (PathType::Prefix, path)])],
        default_backend: Some(backend("rest")),
        ..Ingress::default()
    };
    let routes = routes(vec![one("/x"), one("/x"), one("/y")]);
    assert_eq!(found(&routes, "a", "/x").as_deref(), Some("0"));
    assert_eq!(found(&routes, "a", "/x/z").as_deref(), Some("0"));
    assert_eq!(found(&routes, "a", "/y").as_deref(), Some("2"));
    assert_eq!(found(&routes, "b", "/y").as_deref(), Some("0"), "the default backend");
}

#[test]
fn a_request_goes_to_ready_endpoints_in_turn_and_to_terminating_ones_only_without_others() {
    let name = Arc::new(ServiceName::new("shop", "web"));
    let ports = vec![
        ServicePort { name: "admin".into(), port: 81, ..ServicePort::default() },
        ServicePort { name: "http".into(), port: 80, ..ServicePort::default() },
    ];
    let endpoint = |ip: &str, is_ready, is_terminating| Endpoint {
        addresses: vec![ip.parse().unwrap()],
        is_ready,
        is_serving: true,
        is_terminating,
        ..Endpoint::default()
    };
    let of = |endpoints: Vec<Endpoint>, port: BackendPort| {
        let mut services = ServiceSnapshot::default();
        services
            .services
            .insert(name.clone(), Arc::new(Service { ports: ports.clone(), ..Service::default() }));
        let port_of = |name: &str, port| EndpointPort { name: name.into(), port, ..EndpointPort::default() };
        let slice = EndpointSlice {
            name: "web-1".into(),
            service: name.clone(),
            ports: vec![port_of("admin", 8081), port_of("http", 8080)],
            endpoints,
            has_other_proxy: false,
        };
        services.endpoint_slices.insert(name.clone(), Arc::new(vec![Arc::new(slice)]));
        let backend = ServiceBackend { name: "web".into(), port };
        let found = super::endpoints(&services, "shop", &backend);
        Route { ingress: NamespacedName::default(), endpoints: found, next: AtomicUsize::new(0) }
    };
    let texts = |route: &Route| route.endpoints().map(|one| one.to_string()).collect::<Vec<_>>();
    let number = |number| BackendPort { number, ..BackendPort::default() };
    let all = || {
        vec![
            endpoint("10.0.0.2", true, false),
            endpoint("10.0.0.1", true, false),
            endpoint("10.0.0.3", false, true),
        ]
    };
    let route = of(all(), number(80));
    assert_eq!(texts(&route), ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(texts(&route), ["10.0.0.2:8080", "10.0.0.1:8080"]);
    let named = BackendPort { name: "admin".into(), number: 0 };
    assert_eq!(texts(&of(all(), named))[0], "10.0.0.1:8081");
    assert_eq!(texts(&of(vec![endpoint("10.0.0.3", false, true)], number(80))), ["10.0.0.3:8080"]);
    assert!(texts(&of(vec![endpoint("10.0.0.3", false, false)], number(80))).is_empty());
    assert!(texts(&of(all(), number(82))).is_empty(), "the Service has no such port");
}
