//! Aggregated roles.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;

/// A role with one rule and this label.
fn plain(name: &str, label: &str, resource: &str) -> Map<String, Value> {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]);
    let role = json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules});
    role.as_object().unwrap().clone()
}

/// An aggregated role with its own label.
fn of_others(name: &str, label: &str, selector: Value) -> Map<String, Value> {
    let rule = json!({"clusterRoleSelectors": [selector]});
    let role = json!({"metadata": {"name": name, "labels": {label: "true"}}, "aggregationRule": rule, "rules": null});
    role.as_object().unwrap().clone()
}

fn shown(roles: &[Map<String, Value>]) -> Vec<String> {
    let shown = |(name, rules): (&String, &Vec<Rule>)| {
        let resources: Vec<&str> = rules.iter().map(|rule| rule.resources[0].as_str()).collect();
        format!("{name}: {}", resources.join(" "))
    };
    outdated(roles).iter().map(shown).collect()
}

#[test]
fn aggregated_role_has_the_rules_of_all_selected_roles() {
    let mut roles = vec![
        of_others("admin", "x", json!({"matchLabels": {"to-admin": "true"}})),
        of_others("edit", "to-admin", json!({"matchLabels": {"to-edit": "true"}})),
        plain("pods", "to-edit", "pods"),
        plain("a-secrets", "to-edit", "secrets"),
        plain("same", "to-edit", "pods"),
        plain("roles", "to-admin", "roles"),
        plain("other", "y", "nodes"),
    ];
    assert_eq!(shown(&roles), ["admin: secrets pods roles", "edit: secrets pods"]);
    for (name, rules) in outdated(&roles) {
        let role = roles.iter_mut().find(|role| text(role, "name") == name).unwrap();
        role.insert("rules".to_owned(), rules.iter().map(Rule::json).collect());
    }
    assert_eq!(shown(&roles), [""; 0], "what is settled stays");
    roles.retain(|role| text(role, "name") != "a-secrets");
    assert_eq!(shown(&roles), ["admin: pods roles", "edit: pods"]);
}

#[test]
fn aggregation_handles_selectors_and_cycles() {
    let check = |selector: Value, expected: &str| {
        let roles = [of_others("a", "x", selector), plain("b", "one", "pods")];
        assert_eq!(shown(&roles).join(""), expected);
    };
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "one", "operator": operator, "values": values}]});
    check(expression("In", json!(["true"])), "a: pods");
    check(expression("NotIn", json!(["true"])), "");
    check(expression("Exists", json!(null)), "a: pods");
    check(expression("Nonsense", json!(null)), "");
    check(json!({"matchLabels": {"one": null}}), "");
    check(json!({}), "a: pods");
    let one = of_others("a", "to-b", json!({"matchLabels": {"to-a": "true"}}));
    let two = of_others("b", "to-a", json!({"matchLabels": {"to-b": "true"}}));
    assert_eq!(shown(&[one, two, plain("c", "to-a", "pods")]), ["a: pods", "b: pods"]);
}
