//! Paths to targets.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Objects, Target};

fn objects(path: &str) -> String {
    match Target::parse(path) {
        Some(Target::Objects(Objects { group, version, plural, namespace, name, subresource })) => format!(
            "{group}/{version} {plural} ns={} name={} sub={}",
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
            subresource.unwrap_or_default()
        ),
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
    for path in
        ["/", "", "/metrics", "/api/v1/namespaces/a/pods/x/log/more", "/api/v1/pods/%zz", "/api/v1/pods/%f"]
    {
        assert_eq!(Target::parse(path), None, "{path}");
    }
}
