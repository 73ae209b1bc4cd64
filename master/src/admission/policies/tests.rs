//! Matching of writes, and rejected policies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use api::expressions::{self, OBJECT_COST_BUDGET};
use api::strategy::{Cause, Json};
use apiserver::auth::{Auth, Issuer, ResourceAttributes, Signer};
use apiserver::registry::Registry;
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Identity, VERSION, kinds};
use axum::body::{Body, to_bytes};
use cel::{Bindings, Budget, Program};
use http::Request;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::authorizer::Authorizer;
use super::compiled::Policy;
use super::matching::Target;
use super::objects::MatchResources;
use super::{PolicyValidation, environment};

fn object(value: Value) -> Json {
    value.as_object().unwrap().clone()
}

fn matches(target: &Target<'_>, matched: &Value) -> bool {
    target.matches(Option::<MatchResources>::deserialize(matched).unwrap().as_ref())
}

fn compile(spec: Value) -> Vec<Cause> {
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    Policy::compile(&serde_json::from_value(policy).unwrap()).1
}

#[test]
fn a_policy_applies_to_the_requests_that_its_rules_match() {
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
        // The old object is matched too, so removing the label does not evade the policy.
        (json!({"objectSelector": {"matchLabels": {"app": "old"}}}), "", true),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}),
            "",
            true,
        ),
        (json!({"objectSelector": {"matchLabels": {"app": "none"}}}), "", false),
    ] {
        assert_eq!(matches(&target(subresource), &matched), expected, "{matched}");
    }
    let gone = Target { operation: "DELETE", object: &Json::new(), ..target("") };
    for (operator, expected) in [("DoesNotExist", false), ("Exists", true)] {
        let matched = json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": operator}]}});
        assert_eq!(matches(&gone, &matched), expected, "{matched}");
    }
    let mut named = plain.clone();
    for (field, value, expected) in [
        ("resourceNames", json!(["web"]), true),
        ("resourceNames", json!(["db"]), false),
        ("scope", json!("Cluster"), false),
        ("scope", json!("Namespaced"), false),
    ] {
        named[field] = value;
        assert_eq!(matches(&target(""), &json!({"resourceRules": [named]})), expected, "{named}");
    }
}

#[test]
fn policy_evaluation_is_charged_by_its_cost() {
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() };
    let auth = Auth::new(apiserver::watch_cache::WatchCache::new(1), signer, issuer);
    let who = Identity::authenticated("jane", ["dev".to_owned()]);
    let question = Authorizer::new(auth, who, ResourceAttributes::default());
    let bindings = Bindings::default().with("authorizer", cel::Value::opaque(question));
    for (times, is_answered) in [(10, true), (1000, false)] {
        let source = format!(
            "lists.range({times}).all(i, !authorizer.group('').resource('pods').check('get').allowed())"
        );
        let environment = environment::with_authorizer(environment::of(false));
        let program = Program::compile(&source, &environment).unwrap();
        let result = expressions::run(&program, &bindings, &mut Budget::of(OBJECT_COST_BUDGET));
        assert_eq!(matches!(result, Ok(cel::Value::Bool(true))), is_answered, "{times}: {result:?}");
    }
}

/// A policy must not give its author access to objects that RBAC denies.
#[tokio::test]
async fn policy_parameters_need_read_permission() {
    const PATH: &str = "/apis/admissionregistration.k8s.io/v1";
    let catalog = Catalog::new(kinds::all());
    let registry = Registry::open(Arc::new(Memory::new(Limits::default())), catalog).await.unwrap();
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() };
    let auth = Auth::new(registry.cache().clone(), signer, issuer);
    let written = Arc::new(PolicyValidation::new(registry.clone(), auth));
    let router = Api::writable(registry, vec![written], VERSION).router();
    let post = async |who: &str, path: &str, body: Value| {
        let group = if who == "admin" { "system:masters" } else { "dev" };
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.extension(Identity::authenticated(who, [group.to_owned()]));
        let response =
            router.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice::<Value>(&bytes).unwrap()["message"].to_string())
    };
    let role = json!({"metadata": {"name": "maps"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    let grant = json!({"metadata": {"name": "maps"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", grant)] {
        assert_eq!(
            post("admin", &format!("/apis/rbac.authorization.k8s.io/v1/{plural}"), object).await.0,
            201
        );
    }
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    for (who, kind, code) in
        [("jane", "Secret", 422), ("jane", "ConfigMap", 201), ("admin", "Secret", 201), ("jane", "", 201)]
    {
        let name = format!("{who}-{}", kind.to_lowercase());
        let name = name.trim_end_matches('-');
        let mut spec =
            json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
        if !kind.is_empty() {
            spec["paramKind"] = json!({"apiVersion": "v1", "kind": kind});
        }
        let policy = json!({"metadata": {"name": name}, "spec": spec});
        let (result, message) = post(who, &format!("{PATH}/validatingadmissionpolicies"), policy).await;
        assert_eq!(result, code, "{name}: {message}");
        assert!(code < 300 || message.contains("must have \\\"get\\\" permission"), "{message}");
        let reference = json!({"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"});
        let spec = json!({"policyName": name, "paramRef": reference, "validationActions": ["Deny"]});
        let binding = json!({"metadata": {"name": name}, "spec": spec});
        // Without a policy, or if the policy has no parameters, any `paramRef` is accepted.
        let is_allowed = who == "admin" || kind == "ConfigMap";
        let (result, message) =
            post(who, &format!("{PATH}/validatingadmissionpolicybindings"), binding).await;
        assert_eq!(result, if is_allowed { 201 } else { 422 }, "{name}: {message}");
    }
}

#[test]
fn nested_variables_compile_without_exponential_cost() {
    for (first, next) in [
        ("1", (|at| format!("{}variables.v{at}{}", "[".repeat(20), "]".repeat(20))) as fn(usize) -> String),
        ("1", |at| format!("[{{'a': variables.v{at}}}, {{'a': variables.v{at}}}]")),
        ("[1]", |_| "[variables, variables]".to_owned()),
    ] {
        let variables = (0..500).map(|at| {
            let expression = if at == 0 { first.to_owned() } else { next(at - 1) };
            json!({"name": format!("v{at}"), "expression": expression})
        });
        let spec =
            json!({"variables": variables.collect::<Vec<_>>(), "validations": [{"expression": "true"}]});
        let causes = compile(spec);
        assert!(causes.is_empty(), "{}: {}", next(0), causes[0].message);
    }
}

#[test]
fn invalid_expressions_are_reported_with_their_field() {
    let read = |spec: Value| {
        let causes = compile(spec);
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
    // As in a stock server, the cost counts at run time alone: `object` has no declared sizes.
    let each = |variable: &str, then: &str| format!("object.a.all({variable}, {then})");
    let costly =
        ["v", "w", "x", "y", "z"].iter().fold("z > 0".to_owned(), |then, variable| each(variable, &then));
    assert_eq!(read(json!({"validations": [{"expression": costly}]})), [""; 0]);
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
        let parsed = read(spec.clone());
        assert!(parsed.len() == 1 && parsed[0].contains(expected), "{spec}: {parsed:?}");
    }
}
