//! Token requests of nodes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;
use crate::auth::rbac::Kind;
use crate::watch_cache::{Draft, WatchCache};

#[test]
fn node_may_request_only_the_tokens_its_pods_use() {
    let store = WatchCache::new(1);
    let put = |resource: &str, object: Value| {
        store.put(resource, &Draft::new(object.as_object().unwrap(), &[].into()));
    };
    let volumes = json!([
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"audience": "vault"}}]}},
        {"name": "i", "csi": {"driver": "inline"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "ephemeral": {}},
        {"name": "q", "persistentVolumeClaim": {"claimName": "unbound"}},
    ]);
    for (name, node, volumes) in [("p", "a", volumes), ("bare", "a", json!([])), ("q", "b", json!([]))] {
        let spec = json!({"nodeName": node, "serviceAccountName": "web", "volumes": volumes});
        put(
            "pods",
            json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": spec}),
        );
    }
    for (claim, volume, driver) in [("c", "pv-c", "bound"), ("p-e", "pv-e", "made")] {
        put(
            "persistentvolumeclaims",
            json!({"metadata": {"name": claim, "namespace": "shop"}, "spec": {"volumeName": volume}}),
        );
        put("persistentvolumes", json!({"metadata": {"name": volume}, "spec": {"csi": {"driver": driver}}}));
    }
    put("persistentvolumeclaims", json!({"metadata": {"name": "unbound", "namespace": "shop"}, "spec": {}}));
    for driver in ["inline", "bound", "made", "unused"] {
        let spec = json!({"tokenRequests": [{"audience": format!("for-{driver}")}]});
        put("csidrivers.storage.k8s.io", json!({"metadata": {"name": driver}, "spec": spec}));
    }
    let rules = json!([{"apiGroups": [""], "resources": ["registry"], "verbs": [ANY_AUDIENCE], "resourceNames": ["web"]}]);
    put(&Kind::ClusterRole.qualified(), json!({"metadata": {"name": "r"}, "rules": rules}));
    let subjects = json!([{"kind": "Group", "name": "system:nodes"}]);
    let role = json!({"kind": "ClusterRole", "name": "r"});
    put(
        &Kind::ClusterRoleBinding.qualified(),
        json!({"metadata": {"name": "r"}, "roleRef": role, "subjects": subjects}),
    );
    let auth = super::super::tests::auth(store);
    let pod = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let own = |audiences: Value| json!({"boundObjectRef": pod("p", "uid-p"), "audiences": audiences});
    let unused = |audience: &str| {
        format!(
            "audience {audience:?} not found in pod spec volume, kubelet:a is not authorized to request tokens for this audience"
        )
    };
    let not_bound = "node requested token not bound to a pod";
    for (spec, expected) in [
        (own(json!([])), Ok(())),
        (own(Value::Null), Ok(())),
        (own(json!(["vault"])), Ok(())),
        (own(json!(["for-inline"])), Ok(())),
        (own(json!(["for-bound"])), Ok(())),
        (own(json!(["for-made"])), Ok(())),
        (own(json!(["registry"])), Ok(())),
        (own(json!(["for-unused"])), Err(unused("for-unused"))),
        (own(json!(["vault", "for-inline"])), Err("node may only request 0 or 1 audiences".to_owned())),
        (json!({"boundObjectRef": pod("bare", "uid-bare")}), Err(unused(""))),
        (json!({}), Err(not_bound.to_owned())),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}}),
            Err(not_bound.to_owned()),
        ),
        (json!({"boundObjectRef": pod("", "u")}), Err(not_bound.to_owned())),
        (
            json!({"boundObjectRef": pod("p", "")}),
            Err("node requested token with a pod binding without a uid".to_owned()),
        ),
        (
            json!({"boundObjectRef": pod("q", "uid-q")}),
            Err("node requested token bound to a pod scheduled on a different node".to_owned()),
        ),
        (
            json!({"boundObjectRef": pod("p", "old")}),
            Err("the UID in the bound object reference (old) does not match the UID in record. The object might have been \
                 deleted and then recreated"
                .to_owned()),
        ),
    ] {
        let on = ResourceAttributes {
            resource: "serviceaccounts".to_owned(),
            subresource: "token".to_owned(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ..ResourceAttributes::default()
        };
        let node = Identity::authenticated("kubelet:a", ["system:nodes".to_owned()]);
        let found = check(&auth, &node, &on, &spec).map_err(|refused| refused.message);
        let expected = expected.map_err(|why| format!("serviceaccounts \"web\" is forbidden: {why}"));
        assert_eq!(found, expected, "{spec}");
        let joe = Identity::authenticated("joe", []);
        assert!(check(&auth, &joe, &on, &spec).is_ok(), "others are not restricted: {spec}");
    }
    let absent = json!({"boundObjectRef": pod("gone", "u")});
    let on = ResourceAttributes { namespace: "shop".to_owned(), ..ResourceAttributes::default() };
    let node = Identity::authenticated("kubelet:a", ["system:nodes".to_owned()]);
    assert_eq!(check(&auth, &node, &on, &absent).unwrap_err().code, 404);
}
