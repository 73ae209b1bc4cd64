//! Which writes policies are for, and which policies are refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use api::strategy::Json;
use serde_json::{Value, json};

use super::compiled::Policy;
use super::matching::Target;

fn object(value: Value) -> Json {
    value.as_object().unwrap().clone()
}

#[test]
fn a_policy_is_for_what_its_rules_say() {
    let new = object(json!({"metadata": {"labels": {"app": "web"}}}));
    let old = object(json!({"metadata": {"labels": {"app": "old"}}}));
    let namespace = object(json!({"metadata": {"labels": {"team": "a"}}}));
    let target = |subresource| Target {
        operation: "UPDATE",
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource,
        name: "web",
        is_namespaced: true,
        object: &new,
        old: Some(&old),
        namespace: Some(&namespace),
    };
    let rule = |operations: Value, groups: Value, versions: Value, resources: Value| json!({"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources});
    let plain = rule(json!(["CREATE", "UPDATE"]), json!(["apps"]), json!(["v1"]), json!(["deployments"]));
    let on = |resources: Value| rule(json!(["*"]), json!(["*"]), json!(["*"]), resources);
    for (matched, subresource, expected) in [
        (json!(null), "", true),
        (json!({"resourceRules": [plain]}), "", true),
        (json!({"resourceRules": [plain]}), "status", false),
        (
            json!({"resourceRules": [rule(json!(["CREATE"]), json!(["apps"]), json!(["v1"]), json!(["*"]))]}),
            "",
            false,
        ),
        (json!({"resourceRules": [rule(json!(["*"]), json!([""]), json!(["v1"]), json!(["*"]))]}), "", false),
        (
            json!({"resourceRules": [rule(json!(["*"]), json!(["apps"]), json!(["v1beta1"]), json!(["*"]))]}),
            "",
            true,
        ),
        (
            json!({"matchPolicy": "Exact", "resourceRules": [rule(json!(["*"]), json!(["apps"]), json!(["v1beta1"]), json!(["*"]))]}),
            "",
            false,
        ),
        (json!({"resourceRules": [on(json!(["deployments/*"]))]}), "scale", true),
        (json!({"resourceRules": [on(json!(["*/scale"]))]}), "scale", true),
        (json!({"resourceRules": [on(json!(["*/scale"]))]}), "", false),
        (json!({"resourceRules": [on(json!(["*/*"]))]}), "status", true),
        (json!({"resourceRules": [on(json!(["*"]))]}), "status", false),
        (json!({"resourceRules": [plain], "excludeResourceRules": [on(json!(["*"]))]}), "", false),
        (json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), "", true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}), "", false),
        (json!({"namespaceSelector": {}, "objectSelector": {}}), "", true),
        // Whoever takes the label off does not get away with it.
        (json!({"objectSelector": {"matchLabels": {"app": "old"}}}), "", true),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}),
            "",
            true,
        ),
        (json!({"objectSelector": {"matchLabels": {"app": "none"}}}), "", false),
    ] {
        assert_eq!(target(subresource).matches(Some(&matched)), expected, "{matched}");
    }
    let mut named = plain.clone();
    for (field, value, expected) in [
        ("resourceNames", json!(["web"]), true),
        ("resourceNames", json!(["db"]), false),
        ("scope", json!("Cluster"), false),
        ("scope", json!("Namespaced"), false),
    ] {
        named[field] = value;
        assert_eq!(target("").matches(Some(&json!({"resourceRules": [named]}))), expected, "{named}");
    }
}

#[test]
fn expressions_that_cannot_be_run_are_told_by_their_field() {
    let read = |spec: Value| {
        let causes = Policy::read(&object(json!({"metadata": {"name": "p"}, "spec": spec}))).1;
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
    };
    let fine = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "a", "expression": "request.userInfo.username != 'x' && authorizer.group('').resource('pods').check('get').allowed()"}],
        "variables": [{"name": "n", "expression": "object.spec.replicas"}, {"name": "odd", "expression": "variables.n % 2 == 1"}],
        "validations": [{"expression": "variables.odd && params.data.most > '1'", "messageExpression": "'got ' + object.spec.replicas"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "null"}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: variables.n + 1}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]"}},
        ],
    });
    assert_eq!(read(fine), [""; 0]);
    for (spec, expected) in [
        (
            json!({"validations": [{"expression": "object.spec.replicas >"}]}),
            "spec.validations[0].expression: Invalid value: \"object.spec.replicas >\": compilation failed: ERROR",
        ),
        (json!({"validations": [{"expression": "1 + 1"}]}), "must evaluate to bool"),
        (json!({"validations": [{"expression": "params.x"}]}), "undeclared reference to 'params'"),
        (json!({"validations": [{"expression": "variables.none"}]}), "undefined field 'none'"),
        (json!({"validations": [{"expression": "request.nobody == ''"}]}), "undefined field 'nobody'"),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string",
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "string(authorizer.path('/').check('get').allowed())"}]}),
            "undeclared reference to 'allowed'",
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "variables.x"}]}),
            "spec.matchConditions[0].expression",
        ),
        (json!({"variables": [{"name": "a-b", "expression": "1"}]}), "name is not a valid CEL identifier"),
        (
            json!({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]}),
            "spec.variables[0].expression",
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}),
            "must evaluate to one of string or null_type",
        ),
        (
            json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}}]}),
            "must evaluate to Object",
        ),
        (
            json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "JSONPatch{op: 'add'}.op == 'add'"}}]}),
            "must evaluate to list(JSONPatch)",
        ),
        (
            json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Thing{}"}}]}),
            "undeclared reference to 'Thing'",
        ),
    ] {
        let said = read(spec.clone());
        assert!(said.len() == 1 && said[0].contains(expected), "{spec}: {said:?}");
    }
}
