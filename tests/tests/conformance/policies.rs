//! Admission policies: expressions that reject objects, and expressions that mutate them.

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// The deployments of the namespace in which policies apply.
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/strict/deployments";

fn workload(kind: &str, name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": {"app": "nginx"}}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "nginx"}},
        "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}}})
}

/// A policy for deployments in namespaces that are labeled as strict; `more` is the rest of its spec.
fn policy(kind: &str, name: &str, more: Value) -> Value {
    let mut policy = json!({"kind": kind, "metadata": {"name": name}, "spec": {"matchConstraints": {
        "namespaceSelector": {"matchLabels": {"strict": "yes"}},
        "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]}}});
    for (field, value) in more.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy
}

/// A master with a strict namespace and an unrestricted one.
async fn cluster() -> Cluster {
    let cluster = Cluster::running().await;
    cluster.namespace("strict").await;
    cluster.namespace("free").await;
    cluster
        .patch("/api/v1/namespaces/strict", &json!({"metadata": {"labels": {"strict": "yes"}}}))
        .await
        .is(200);
    cluster
}

/// Puts a validating policy into force.
async fn validate(cluster: &Cluster, name: &str, more: Value, binding: Value) {
    let policy = policy("ValidatingAdmissionPolicy", name, more);
    cluster.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await.is(201);
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
    for (field, value) in binding.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let binding = json!({"metadata": {"name": format!("{name}-binding")}, "spec": spec});
    cluster.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await.is(201);
}

/// Puts a mutating policy into force.
async fn mutate(cluster: &Cluster, name: &str, more: Value) {
    let policy = policy("MutatingAdmissionPolicy", name, more);
    cluster.post(&format!("{GROUP}/mutatingadmissionpolicies"), &policy).await.is(201);
    let binding = json!({"metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name}});
    cluster.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), &binding).await.is(201);
}

fn warnings(answer: &Answer) -> Vec<String> {
    let warnings =
        answer.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap().to_owned());
    // No controller of this cluster acts on workloads, which causes a warning of its own.
    warnings.filter(|warning| !warning.contains("no controller acts on")).collect()
}

#[tokio::test]
async fn validating_policy_validates_deployments() {
    let cluster = cluster().await;
    let rules = json!({"validations": [{"expression": "object.spec.replicas > 1", "messageExpression": "'wants replicas > 1, got ' + string(object.spec.replicas)"}]});
    validate(
        &cluster,
        "replicated",
        rules,
        json!({"matchResources": {"namespaceSelector": {"matchLabels": {"strict": "yes"}}}}),
    )
    .await;
    let refused = cluster.post(DEPLOYMENTS, &workload("Deployment", "single", 1)).await;
    refused.refuses(422, "deployments.apps \"single\" is forbidden: ValidatingAdmissionPolicy 'replicated' with binding 'replicated-binding' denied request: wants replicas > 1, got 1");
    assert_eq!(refused.body["reason"], "Invalid");
    cluster.post(DEPLOYMENTS, &workload("Deployment", "replicated", 2)).await.is(201);
    cluster
        .patch(&format!("{DEPLOYMENTS}/replicated"), &json!({"spec": {"replicas": 1}}))
        .await
        .refuses(422, "got 1");
    // The policy does not apply to other kinds and other namespaces.
    cluster
        .post("/apis/apps/v1/namespaces/strict/replicasets", &workload("ReplicaSet", "single", 1))
        .await
        .is(201);
    cluster
        .post("/apis/apps/v1/namespaces/free/deployments", &workload("Deployment", "single", 1))
        .await
        .is(201);
    cluster.delete(&format!("{GROUP}/validatingadmissionpolicybindings/replicated-binding")).await.is(200);
    cluster.post(DEPLOYMENTS, &workload("Deployment", "single", 1)).await.is(201);
}

#[tokio::test]
async fn policy_expressions_use_variables() {
    let cluster = cluster().await;
    let rules = json!({
        "variables": [{"name": "replicas", "expression": "object.spec.replicas"}, {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"}],
        "validations": [{"expression": "variables.replicas > 1"}, {"expression": "variables.oddReplicas", "message": "wants an odd number", "reason": "Forbidden"}],
    });
    validate(&cluster, "odd", rules, json!({})).await;
    cluster
        .post(DEPLOYMENTS, &workload("Deployment", "a", 1))
        .await
        .refuses(422, "denied request: failed expression: variables.replicas > 1");
    let refused = cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 2)).await;
    refused.refuses(403, "denied request: wants an odd number");
    assert_eq!(refused.body["reason"], "Forbidden");
    cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 3)).await.is(201);
}

#[tokio::test]
async fn policies_support_parameters_conditions_and_warnings() {
    let cluster = cluster().await;
    cluster
        .post(
            "/api/v1/namespaces/free/configmaps",
            &json!({"metadata": {"name": "most", "labels": {"of": "most"}}, "data": {"most": "3"}}),
        )
        .await
        .is(201);
    let rules = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [
            {"name": "not-exempt", "expression": "!has(object.metadata.annotations) || !('exempt' in object.metadata.annotations)"},
            {"name": "may", "expression": "authorizer.group('apps').resource('deployments').namespace('strict').check('create').allowed() && authorizer.requestResource.check('create').allowed() && !authorizer.serviceAccount('free', 'default').path('/secret').check('get').allowed()"},
        ],
        "validations": [{"expression": "object.spec.replicas <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most + ' in ' + namespaceObject.metadata.name"},
            {"expression": "request.operation == 'CREATE' ? oldObject == null : oldObject.metadata.name == request.name && 'system:masters' in request.userInfo.groups"}],
    });
    let by_name =
        json!({"paramRef": {"name": "most", "namespace": "free", "parameterNotFoundAction": "Deny"}});
    validate(&cluster, "limited", rules.clone(), by_name).await;
    cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 4)).await.refuses(422, "at most 3 in strict");
    let mut exempt = workload("Deployment", "exempt", 4);
    exempt["metadata"]["annotations"] = json!({"exempt": "yes"});
    cluster.post(DEPLOYMENTS, &exempt).await.is(201);
    cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 3)).await.is(201);
    cluster.patch(&format!("{DEPLOYMENTS}/a"), &json!({"spec": {"replicas": 2}})).await.is(200);
    cluster.patch("/api/v1/namespaces/free/configmaps/most", &json!({"data": {"most": "1"}})).await.is(200);
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/limited-binding");
    // A binding may warn instead, and may select parameters by label.
    let warn = json!({"spec": {"validationActions": ["Warn", "Audit"], "paramRef": {"name": null, "selector": {"matchLabels": {"of": "most"}}}}});
    cluster.patch(&binding, &warn).await.is(200);
    let made = cluster.post(DEPLOYMENTS, &workload("Deployment", "b", 4)).await;
    let received_warnings = warnings(&made);
    made.is(201);
    assert!(received_warnings.len() == 1 && received_warnings[0].contains("Validation failed for ValidatingAdmissionPolicy 'limited' with binding 'limited-binding': at most 1 in strict"), "{received_warnings:?}");
    // The parameter object is missing.
    let missing =
        json!({"spec": {"validationActions": ["Deny"], "paramRef": {"name": "none", "selector": null}}});
    cluster.patch(&binding, &missing).await.is(200);
    cluster.post(DEPLOYMENTS, &workload("Deployment", "c", 1)).await.refuses(
        422,
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    );
    cluster
        .patch(&binding, &json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}))
        .await
        .is(200);
    cluster.post(DEPLOYMENTS, &workload("Deployment", "c", 9)).await.is(201);
}

#[tokio::test]
async fn failed_policies_reject_requests_unless_they_are_ignored() {
    let cluster = cluster().await;
    let bad = policy(
        "ValidatingAdmissionPolicy",
        "bad",
        json!({"validations": [{"expression": "object.spec.replicas > undefinedName"}]}),
    );
    let path = format!("{GROUP}/validatingadmissionpolicies");
    cluster.post(&path, &bad).await.refuses(422, "spec.validations[0].expression: Invalid value: \"object.spec.replicas > undefinedName\": compilation failed: ERROR: <input>:1:24: undeclared reference to 'undefinedName'");
    validate(
        &cluster,
        "stumbles",
        json!({"validations": [{"expression": "object.spec.nothing == 1"}]}),
        json!({}),
    )
    .await;
    cluster
        .post(DEPLOYMENTS, &workload("Deployment", "a", 1))
        .await
        .refuses(422, "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing");
    cluster.patch(&format!("{path}/stumbles"), &json!({"spec": {"failurePolicy": "Ignore"}})).await.is(200);
    cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 1)).await.is(201);
    // Policies also apply to deletions, and see the deleted object.
    let keep =
        json!({"validations": [{"expression": "oldObject.metadata.name != 'a'", "message": "a stays"}]});
    validate(&cluster, "keep", keep, json!({})).await;
    let on_delete = json!({"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["deployments"]}]}}});
    cluster.patch(&format!("{path}/keep"), &on_delete).await.is(200);
    cluster.delete(&format!("{DEPLOYMENTS}/a")).await.refuses(422, "a stays");
    // Policies do not apply to policies and bindings, so that they can be repaired.
    let all = json!({"spec": {"matchConstraints": {"namespaceSelector": null, "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]}}});
    cluster.patch(&format!("{path}/keep"), &all).await.is(200);
    cluster.delete(&format!("{GROUP}/validatingadmissionpolicybindings/keep-binding")).await.is(200);
    cluster.delete(&format!("{DEPLOYMENTS}/a")).await.is(200);
}

#[tokio::test]
async fn mutating_policy_changes_deployments() {
    let cluster = cluster().await;
    let annotate = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
        "Object{ metadata: Object.metadata{ annotations: { \"mutated-by\": \"admission-policy\" } } }"}}], "reinvocationPolicy": "Never"});
    mutate(&cluster, "annotate", annotate).await;
    let made = cluster.post(DEPLOYMENTS, &workload("Deployment", "annotated", 2)).await.is(201);
    assert_eq!(made["metadata"]["annotations"], json!({"mutated-by": "admission-policy"}));
    let free = cluster
        .post("/apis/apps/v1/namespaces/free/deployments", &workload("Deployment", "a", 2))
        .await
        .is(201);
    assert_eq!(free["metadata"].get("annotations"), None, "{free}");
}

#[tokio::test]
async fn mutating_policy_supports_apply_configurations_and_json_patches() {
    let cluster = cluster().await;
    let rules = json!({
        "variables": [{"name": "least", "expression": "2"}],
        "matchConditions": [{"name": "few", "expression": "object.spec.replicas < 10"}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{spec: Object.spec{replicas: object.spec.replicas < variables.least ? variables.least : object.spec.replicas, template: Object.spec.template{spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'test', path: '/spec/replicas', value: 2}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/env'), value: 'prod'}]"}},
        ],
    });
    mutate(&cluster, "parts", rules).await;
    let made = cluster.post(DEPLOYMENTS, &workload("Deployment", "a", 1)).await.is(201);
    assert_eq!(made["spec"]["replicas"], 2);
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["imagePullPolicy"]),
        (&json!("nginx:latest"), &json!("Always"))
    );
    assert_eq!(made["metadata"]["labels"], json!({"app": "nginx", "example.com/env": "prod"}));
    // More than two fail the patch's test; the match condition excludes more than nine.
    cluster.post(DEPLOYMENTS, &workload("Deployment", "b", 5)).await.refuses(
        403,
        "policy 'parts' with binding 'parts-binding' denied request: mutation 1 resulted in error",
    );
    let made = cluster.post(DEPLOYMENTS, &workload("Deployment", "b", 12)).await.is(201);
    assert_eq!(made["metadata"]["labels"], json!({"app": "nginx"}));
    let unknown = json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{replica: 3}}"}}]});
    mutate(&cluster, "unknown", unknown).await;
    cluster
        .post(DEPLOYMENTS, &workload("Deployment", "c", 12))
        .await
        .refuses(403, "mutation 0 resulted in error: unknown field \"spec.replica\"");
    let bad = policy(
        "MutatingAdmissionPolicy",
        "bad",
        json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: nobody}"}}]}),
    );
    cluster
        .post(&format!("{GROUP}/mutatingadmissionpolicies"), &bad)
        .await
        .refuses(422, "undeclared reference to 'nobody'");
}
