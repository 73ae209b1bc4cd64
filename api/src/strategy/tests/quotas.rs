//! Tests of ResourceQuotas with the errors of a stock server.

use serde_json::{Value, json};

use super::super::Part;
use super::Case;

fn expression(scope: &str, operator: &str, values: &[&str]) -> Value {
    json!({"scopeName": scope, "operator": operator, "values": values})
}

fn selected(resource: &str, expressions: Value) -> Value {
    json!({"hard": {resource: "1"}, "scopeSelector": {"matchExpressions": expressions}})
}

#[test]
fn errors_match_the_stock_server() {
    const SCOPES: &str = "spec.scopes";
    const EXPRESSIONS: &str = "spec.scopeSelector.matchExpressions";
    const APPLIED: &str = "unsupported scope applied to resource";
    let scoped = |resource: &str, scopes: &[&str]| json!({"hard": {resource: "1"}, "scopes": scopes});
    let hard = |resource: &str, amount: &str| json!({"hard": {resource: amount}});
    for (spec, expected) in [
        (scoped("services", &["BestEffort"]), vec![(SCOPES, APPLIED)]),
        (scoped("cpu", &["BestEffort"]), vec![(SCOPES, APPLIED)]),
        (scoped("requests.storage", &["Terminating"]), vec![(SCOPES, APPLIED)]),
        (scoped("hugepages-2Mi", &["Terminating"]), vec![(SCOPES, APPLIED)]),
        (scoped("services", &["BestEffort", "Terminating"]), vec![(SCOPES, APPLIED), (SCOPES, APPLIED)]),
        (scoped("pods", &["BestEffort", "NotBestEffort"]), vec![(SCOPES, "conflicting scopes")]),
        (scoped("pods", &["Terminating", "NotTerminating"]), vec![(SCOPES, "conflicting scopes")]),
        (scoped("pods", &["Other"]), vec![(SCOPES, "unsupported scope")]),
        (scoped("pods", &["PriorityClass"]), vec![]),
        (scoped("cpu", &["NotBestEffort"]), vec![]),
        (scoped("count/pods", &["BestEffort"]), vec![]),
        (scoped("requests.example.com/gpu", &["BestEffort"]), vec![]),
        (scoped("persistentvolumeclaims", &["VolumeAttributesClass"]), vec![]),
        (scoped("pods", &["VolumeAttributesClass"]), vec![(SCOPES, APPLIED)]),
        (hard("pods", "1500m"), vec![("spec.hard[pods]", "must be an integer")]),
        (
            hard("count/deployments.apps", "1500m"),
            vec![("spec.hard[count/deployments.apps]", "must be an integer")],
        ),
        (hard("requests.example.com/gpu", "1500m"), vec![]),
        (hard("cpu", "1500m"), vec![]),
        (hard("requests.hugepages-2Mi", "3Mi"), vec![]),
        (hard("limits.ephemeral-storage", "1"), vec![]),
        (
            hard("foo", "1"),
            vec![
                ("spec.hard[foo]", "must be a standard resource type or fully qualified"),
                ("spec.hard[foo]", "must be a standard resource for quota"),
            ],
        ),
        (hard("storage", "1"), vec![("spec.hard[storage]", "must be a standard resource for quota")]),
        (hard("a b", "1"), vec![("spec.hard[a b]", "letters, digits")]),
        (hard("pods", "-1"), vec![("spec.hard[pods]", "must be greater than or equal to 0")]),
        (
            selected("pods", json!([expression("BestEffort", "In", &["a"])])),
            vec![("spec.scopeSelector.matchExpressions[0].operator", "must be 'Exist' when scope is any of")],
        ),
        (
            selected("pods", json!([expression("PriorityClass", "In", &[])])),
            vec![("spec.scopeSelector.matchExpressions[0].values", "must be at least one value")],
        ),
        (
            selected("pods", json!([expression("PriorityClass", "Exists", &["a"])])),
            vec![("spec.scopeSelector.matchExpressions[0].values", "must be no value")],
        ),
        (
            selected("pods", json!([expression("PriorityClass", "Foo", &[])])),
            vec![("spec.scopeSelector.matchExpressions[0].operator", "not a valid selector operator")],
        ),
        (
            selected("services", json!([expression("PriorityClass", "Exists", &[])])),
            vec![(EXPRESSIONS, APPLIED)],
        ),
        (
            selected("pods", json!([expression("Other", "Exists", &[])])),
            vec![("spec.scopeSelector.matchExpressions[0].scopeName", "unsupported scope")],
        ),
        (
            selected(
                "pods",
                json!([expression("BestEffort", "Exists", &[]), expression("NotBestEffort", "Exists", &[])]),
            ),
            vec![(EXPRESSIONS, "conflicting scopes")],
        ),
        (selected("pods", json!([expression("CrossNamespacePodAffinity", "Exists", &[])])), vec![]),
        (selected("cpu", json!([expression("PriorityClass", "NotIn", &["low"])])), vec![]),
    ] {
        let quota = Case::new(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a", "namespace": "b"}, "spec": spec,
        }));
        let found = quota.causes(&Part::Main);
        assert_eq!(found.len(), expected.len(), "{spec}: {found:?}");
        for ((field, words), cause) in expected.iter().zip(&found) {
            assert!(cause.field == *field && cause.message.contains(words), "{spec}: {cause:?}");
        }
    }
}
