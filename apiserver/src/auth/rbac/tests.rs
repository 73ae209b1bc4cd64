//! The authorizer follows its watch cache.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Map, Value, json};

use super::*;
use crate::auth::attributes::ResourceAttributes;
use crate::watch_cache::Draft;

fn put(store: &WatchCache, kind: Kind, object: Value) {
    store.put(&kind.qualified(), &Draft::new(object.as_object().unwrap(), &[].into()));
}

fn role(name: &str, verb: &str) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]})
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

fn may(authorizer: &Authorizer, verb: &str) -> bool {
    let on = ResourceAttributes { resource: "pods".to_owned(), ..ResourceAttributes::default() };
    authorizer.decide(&Identity::authenticated("joe", []), &Attributes::on(verb, on)).is_allowed()
}

#[test]
fn new_role_takes_effect_at_once() {
    let store = WatchCache::new(1);
    put(&store, Kind::ClusterRole, role("r", "get"));
    let authorizer = Authorizer::new(store.clone());
    assert!(!may(&authorizer, "get"));
    put(&store, Kind::ClusterRoleBinding, binding("b", "r", "joe"));
    assert!(may(&authorizer, "get") && !may(&authorizer, "list"));
    put(&store, Kind::ClusterRole, role("r", "list"));
    assert!(!may(&authorizer, "get") && may(&authorizer, "list"));
    store.delete(&Kind::ClusterRoleBinding.qualified(), "", "b");
    assert!(!may(&authorizer, "list"));
}

#[test]
fn a_gap_in_the_watch_history_rebuilds_the_index() {
    let store = WatchCache::with_history(1, 1024);
    put(&store, Kind::ClusterRole, role("r", "get"));
    put(&store, Kind::ClusterRoleBinding, binding("old", "r", "joe"));
    let authorizer = Authorizer::new(store.clone());
    assert!(may(&authorizer, "get"));
    store.delete(&Kind::ClusterRoleBinding.qualified(), "", "old");
    for number in 0..5000 {
        put(&store, Kind::ClusterRoleBinding, binding("b", "r", &format!("u{number}")));
    }
    assert!(!may(&authorizer, "get"));
    put(&store, Kind::ClusterRoleBinding, binding("b", "r", "joe"));
    assert!(may(&authorizer, "get"));
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn no_user_grants_permissions_beyond_their_own() {
    let store = WatchCache::new(1);
    let rules = json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["free"]},
        {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["own"]},
    ]);
    put(&store, Kind::ClusterRole, json!({"metadata": {"name": "r"}, "rules": rules}));
    put(&store, Kind::ClusterRoleBinding, binding("b", "r", "joe"));
    for name in ["free", "secret"] {
        put(&store, Kind::ClusterRole, role(name, "delete"));
    }
    let authorizer = Authorizer::new(store);
    let joe = Identity::authenticated("joe", []);
    let check = |kind: Kind, before: Option<&Value>, object_: &Value, expected: &str| {
        let before = before.map(|before| object(before.clone()));
        let found = authorizer.check_escalation(&joe, kind, before.as_ref(), &object(object_.clone()));
        let found = found.err().map(|refused| refused.message).unwrap_or_default();
        assert_eq!(found, expected, "{object_}");
    };
    let more = r#"clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "joe" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#;
    check(Kind::ClusterRole, None, &role("x", "get"), "");
    check(Kind::ClusterRole, None, &role("x", "delete"), more);
    check(Kind::ClusterRole, None, &role("own", "delete"), "");
    check(Kind::ClusterRole, Some(&role("x", "delete")), &role("x", "delete"), "");
    let mut other = role("x", "delete");
    other["metadata"]["finalizers"] = json!(["a"]);
    check(Kind::ClusterRole, Some(&role("x", "delete")), &other, "");
    other["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    check(Kind::ClusterRole, Some(&role("x", "delete")), &other, more);
    check(Kind::ClusterRole, Some(&role("x", "get")), &role("x", "delete"), more);
    let aggregated = json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": []}});
    let whole = r#"clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin privileges to use the aggregationRule"#;
    check(Kind::ClusterRole, None, &aggregated, whole);
    check(Kind::ClusterRole, Some(&aggregated), &role("x", "get"), whole);
    let wide: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let wide =
        json!({"metadata": {"name": "x"}, "rules": [{"verbs": wide, "apiGroups": wide, "resources": wide}]});
    let refused = authorizer.check_escalation(&joe, Kind::ClusterRole, None, &object(wide)).unwrap_err();
    assert!(refused.message.contains("use wildcards or split the role"), "{refused}");

    check(Kind::ClusterRoleBinding, None, &binding("x", "free", "ann"), "");
    check(
        Kind::ClusterRoleBinding,
        None,
        &binding("x", "own", "ann"),
        r#"clusterrole.rbac.authorization.k8s.io "own" not found"#,
    );
    check(
        Kind::ClusterRoleBinding,
        None,
        &binding("x", "secret", "ann"),
        &more.replace("clusterroles", "clusterrolebindings"),
    );
    check(Kind::ClusterRoleBinding, Some(&binding("x", "secret", "ann")), &binding("x", "secret", "ann"), "");
    check(
        Kind::ClusterRoleBinding,
        Some(&binding("x", "secret", "ann")),
        &binding("x", "secret", "joe"),
        &more.replace("clusterroles", "clusterrolebindings"),
    );
    let admin = Identity::authenticated("a", ["system:masters".to_owned()]);
    assert!(authorizer.check_escalation(&admin, Kind::ClusterRole, None, &object(aggregated)).is_ok());
}
