//! Targets of paths.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{ListOptions, Objects, Target};

fn objects(path: &str) -> String {
    match Target::parse(path) {
        Some(Target::Objects(Objects { group, version, plural, namespace, name, subresource, is_watch })) => {
            format!(
                "{}{group}/{version} {plural} ns={} name={} sub={}",
                if is_watch { "watch " } else { "" },
                namespace.unwrap_or_default(),
                name.unwrap_or_default(),
                subresource.unwrap_or_default()
            )
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn paths_of_objects() {
    for (path, expected) in [
        ("/api/v1/pods", "/v1 pods ns= name= sub="),
        ("/api/v1/pods/", "/v1 pods ns= name= sub="),
        ("/api/v1/namespaces/a/pods", "/v1 pods ns=a name= sub="),
        ("/api/v1/namespaces/a/pods/x", "/v1 pods ns=a name=x sub="),
        ("/api/v1/namespaces/a/pods/x/log", "/v1 pods ns=a name=x sub=log"),
        ("/api/v1/nodes/n1", "/v1 nodes ns= name=n1 sub="),
        ("/api/v1/namespaces", "/v1 namespaces ns= name= sub="),
        ("/api/v1/namespaces/a", "/v1 namespaces ns= name=a sub="),
        ("/api/v1/namespaces/a/status", "/v1 namespaces ns= name=a sub=status"),
        ("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps/v1 deployments ns=a name=d sub=scale"),
        ("/api/v1/watch/pods", "watch /v1 pods ns= name= sub="),
        ("/api/v1/watch/namespaces/a/pods/x", "watch /v1 pods ns=a name=x sub="),
        ("/api/v1/watch/namespaces/a", "watch /v1 namespaces ns= name=a sub="),
        ("/apis/apps/v1/watch/deployments", "watch apps/v1 deployments ns= name= sub="),
        (
            "/apis/rbac.x.io/v1/clusterroles/system%3Anode",
            "rbac.x.io/v1 clusterroles ns= name=system:node sub=",
        ),
    ] {
        assert_eq!(objects(path), expected, "{path}");
    }
}

#[test]
fn other_paths() {
    assert_eq!(Target::parse("/version"), Some(Target::Version));
    assert_eq!(Target::parse("/api"), Some(Target::CoreVersions));
    assert_eq!(Target::parse("/apis/apps"), Some(Target::Group("apps".to_owned())));
    assert_eq!(Target::parse("/api/v1"), Some(Target::GroupVersion(String::new(), "v1".to_owned())));
    for path in [
        "/",
        "",
        "/metrics",
        "/api/v1/namespaces/a/pods/x/log/more",
        "/api/v1/pods/%zz",
        "/api/v1/pods/%f",
        "/api/v1/watch/pods/x/status",
        "/api/v1/watch/watch/pods",
    ] {
        assert_eq!(Target::parse(path), None, "{path}");
    }
}

#[test]
fn list_options_parse_resource_version_match() {
    let parsed = |query: &str| ListOptions::parse(&format!("/api/v1/pods?{query}").parse().unwrap(), false);
    for (query, exact, limit) in [
        ("", false, None),
        ("resourceVersion=5", false, None),
        ("resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=2", false, Some(2)),
        ("resourceVersion=5&resourceVersionMatch=Exact", true, None),
        ("resourceVersion=5&limit=2", true, Some(2)),
        ("resourceVersion=0&limit=2", false, None),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=2", false, None),
        ("continue=x&limit=2", false, Some(2)),
        ("continue=x&limit=2&resourceVersion=0", false, Some(2)),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", false, None),
        ("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", false, None),
    ] {
        let options = parsed(query).unwrap();
        assert_eq!((options.exact, options.limit), (exact, limit), "{query}");
    }
    for (query, code, text) in [
        (
            "resourceVersionMatch=Exact",
            422,
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=Other&resourceVersion=1",
            422,
            "Unsupported value: \"Other\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
            422,
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            "resourceVersion=1&continue=x",
            400,
            "specifying resource version is not allowed when using continue",
        ),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            "is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "watch=1&sendInitialEvents=true",
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422, "Unsupported value: \"Exact\""),
    ] {
        let status = parsed(query).unwrap_err();
        assert_eq!(status.code, code, "{query}: {status}");
        assert!(status.message.contains(text), "{query}: {status}");
    }
    let status = parsed("resourceVersionMatch=Exact").unwrap_err();
    assert!(
        status.message.starts_with("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: "),
        "{status}"
    );
}

#[test]
fn boolean_parameters_are_true_unless_false_or_zero() {
    for (value, is_on) in [
        ("true", true),
        ("True", true),
        ("1", true),
        ("", true),
        ("yes", true),
        ("0", false),
        ("false", false),
        ("False", false),
    ] {
        let options =
            ListOptions::parse(&format!("/api/v1/pods?watch={value}").parse().unwrap(), false).unwrap();
        assert_eq!(options.watch, is_on, "{value}");
    }
}
