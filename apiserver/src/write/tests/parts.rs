//! Subresources and collection deletes.

use super::*;
use crate::kinds;

const NAMESPACES: &str = "/api/v1/namespaces";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn server() -> Server {
    Server::of(kinds::all(), |_| Vec::new()).await
}

/// A valid pod.
fn pod(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{
        "name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log"}],
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}})
}

async fn status(server: &Server, path: &str, status: Value) {
    let patch = json!({"status": status}).to_string();
    let (code, answer, _) = server.send_request("PATCH", &format!("{path}/status"), MERGE, patch).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn scale_subresource_changes_only_the_replicas() {
    let server = server().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod("", json!({}))["spec"]});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["y", "x"]}, {"key": "debug", "operator": "DoesNotExist"}]});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": selector, "template": template}});
    let (code, made) = server.json("POST", DEPLOYMENTS, deployment).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (code, mut scale) = server.get(&path).await;
    assert_eq!(
        (code, &scale["kind"], &scale["apiVersion"]),
        (200, &json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web,!debug,tier notin (x,y)"}));
    assert_eq!(scale["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);

    let (code, three, _) =
        server.send_request("PATCH", &path, MERGE, json!({"spec": {"replicas": 3}}).to_string()).await;
    assert_eq!((code, &three["kind"], &three["spec"]["replicas"]), (200, &json!("Scale"), &json!(3)));
    scale["spec"]["replicas"] = 4.into();
    refused(server.json("PUT", &path, scale.clone()).await, 409, "Conflict", "the object has been modified");
    scale["metadata"]["resourceVersion"] = three["metadata"]["resourceVersion"].clone();
    assert_eq!(server.json("PUT", &path, scale.clone()).await.1["spec"]["replicas"], 4);
    let deployment = server.get(&format!("{DEPLOYMENTS}/web")).await.1;
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]),
        (&json!(4), &json!(3))
    );
    let owners = deployment["metadata"]["managedFields"].as_array().unwrap();
    assert!(owners.iter().any(|owner| owner["subresource"] == "scale"), "{deployment}");
    scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    scale["spec"]["replicas"] = (-1).into();
    refused(
        server.json("PUT", &path, scale).await,
        422,
        "Invalid",
        "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
    refused(server.get(&format!("{DEPLOYMENTS}/none/scale")).await, 404, "NotFound", "\"none\" not found");
    refused(server.get(&format!("{DEPLOYMENTS}/web/nothing")).await, 404, "NotFound", "");
}

#[tokio::test]
async fn pod_can_be_bound_only_once() {
    let server = server().await;
    let (_, made) = server.json("POST", PODS, pod("p", json!({}))).await;
    assert_eq!(made["metadata"]["name"], "p", "{made}");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "annotations": {"a": "b"}},
        "target": {"kind": "Node", "name": "n1"}});
    let path = format!("{PODS}/p/binding");
    let mut other = binding.clone();
    other["metadata"]["uid"] = "other".into();
    refused(server.json("POST", &path, other).await, 409, "Conflict", "Precondition failed: UID");
    let nowhere = json!({"metadata": {"name": "p"}, "target": {"kind": "Node"}});
    refused(server.json("POST", &path, nowhere).await, 422, "Invalid", "target.name: Required value");
    let (code, bound) = server.json("POST", &path, binding.clone()).await;
    assert_eq!((code, &bound["status"]), (201, &json!("Success")), "{bound}");
    let pod_now = server.get(&format!("{PODS}/p")).await.1;
    assert_eq!(
        (&pod_now["spec"]["nodeName"], &pod_now["metadata"]["annotations"]["a"]),
        (&json!("n1"), &json!("b"))
    );
    assert_ne!(pod_now["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let conditions = pod_now["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "PodScheduled" && c["status"] == "True"), "{pod_now}");
    let again = server.json("POST", &path, binding.clone()).await;
    refused(again, 409, "Conflict", "pod p is already assigned to node \"n1\"");

    server.json("POST", PODS, pod("q", json!({}))).await;
    let mut named = binding;
    named["metadata"]["name"] = "q".into();
    let (code, bound) = server.json("POST", "/api/v1/namespaces/default/bindings", named).await;
    assert_eq!(code, 201, "{bound}");
    assert_eq!(server.get(&format!("{PODS}/q")).await.1["spec"]["nodeName"], "n1");
    // Only creates are supported.
    for (method, path, code) in [
        ("POST", "bindings/q", 405),
        ("PUT", "bindings/q", 405),
        ("DELETE", "bindings", 405),
        ("POST", "bindings/q/status", 404),
    ] {
        let path = format!("/api/v1/namespaces/default/{path}");
        assert_eq!(server.json(method, &path, json!({})).await.0, code, "{method} {path}");
    }
}

#[tokio::test]
async fn eviction_respects_the_disruption_budget() {
    let server = server().await;
    let eviction = |version: &str, name: &str| json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        server.json("POST", PODS, pod(name, json!({"app": "web"}))).await;
        let ready = json!([{"type": "Ready", "status": "True"}]);
        status(&server, &format!("{PODS}/{name}"), json!({"phase": "Running", "conditions": ready})).await;
    }
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    let (code, made) = server.json("POST", BUDGETS, budget).await;
    assert_eq!(code, 201, "{made}");
    let evict = async |version: &str, name: &str| {
        server.json("POST", &format!("{PODS}/{name}/eviction"), eviction(version, name)).await
    };
    let unknown = evict("policy/v1", "a").await;
    assert_eq!(unknown.1["details"]["retryAfterSeconds"], 10);
    refused(unknown, 429, "TooManyRequests", "violate the pod's disruption budget");
    let new_status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    status(&server, &format!("{BUDGETS}/web"), new_status).await;
    assert_eq!(evict("policy/v1beta1", "a").await.0, 201);
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404);
    let now = server.get(&format!("{BUDGETS}/web")).await.1;
    assert_eq!(now["status"]["disruptionsAllowed"], 0);
    assert!(now["status"]["disruptedPods"]["a"].is_string(), "{now}");
    assert_eq!(now["status"]["conditions"][0]["reason"], "InsufficientPods");
    let spent = evict("policy/v1", "b").await;
    assert_eq!(spent.1["details"]["causes"][0]["reason"], "DisruptionBudget");
    refused(spent, 429, "TooManyRequests", "violate the pod's disruption budget");
    status(&server, &format!("{PODS}/c"), json!({"phase": "Succeeded"})).await;
    assert_eq!(evict("policy/v1", "c").await.0, 201, "what does no work is no loss");
    assert_eq!(evict("policy/v1", "none").await.0, 404);
    assert_eq!(evict("v1", "b").await.0, 400);
}

#[tokio::test]
async fn an_eviction_sets_a_condition_and_obeys_budgets_for_unready_pods() {
    let server = server().await;
    let path = format!("{PODS}/a");
    let mut running = pod("a", json!({"app": "web"}));
    running["spec"]["nodeName"] = "n".into();
    server.json("POST", PODS, running).await;
    status(&server, &path, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}))
        .await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    server.json("POST", BUDGETS, budget).await;
    let budget_path = format!("{BUDGETS}/web");
    let evict = async || {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
        server.json("POST", &format!("{path}/eviction"), eviction).await
    };
    let new_status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1});
    status(&server, &budget_path, new_status).await;
    let cause = |answer: &(u16, Value)| answer.1["details"]["causes"][0]["message"].clone();
    assert_eq!(cause(&evict().await), "The disruption budget web needs 1 healthy pods and has 0 currently");
    let failed = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    status(&server, &budget_path, json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 1, "conditions": failed})).await;
    assert_eq!(
        cause(&evict().await),
        "The disruption budget web does not allow evicting pods currently because it failed sync: why"
    );
    let (_, mut found) = server.get(&budget_path).await;
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy"] {
        assert_eq!(found["status"][count], 0, "clients read it: {found}");
    }
    found["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
    let (code, found) = server.json("PUT", &budget_path, found).await;
    assert_eq!(code, 200, "{found}");
    assert_eq!(evict().await.0, 201, "one that is not ready is no loss");
    let (_, ending) = server.get(&path).await;
    let target = ending["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "DisruptionTarget")
        .cloned();
    assert_eq!(target.unwrap()["reason"], "EvictionByEvictionAPI");
    assert!(ending["metadata"]["deletionTimestamp"].is_string(), "{ending}");
}

#[tokio::test]
async fn subresource_changes_only_its_own_fields() {
    let server = server().await;
    server.json("POST", PODS, pod("p", json!({}))).await;
    let path = format!("{PODS}/p");
    let debugger = json!({"spec": {"containers": [{"name": "c", "image": "other"}], "ephemeralContainers": [
        {"name": "d", "image": "busybox", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
         "terminationMessagePath": "/dev/termination-log"}]}});
    let strategic = "application/strategic-merge-patch+json";
    let (code, new_status, _) = server
        .send_request("PATCH", &format!("{path}/ephemeralcontainers"), strategic, debugger.to_string())
        .await;
    assert_eq!(code, 200, "{new_status}");
    assert_eq!(
        (
            &new_status["spec"]["ephemeralContainers"][0]["name"],
            &new_status["spec"]["containers"][0]["image"]
        ),
        (&json!("d"), &json!("i"))
    );

    let mut request = json!({"metadata": {"name": "r"}, "spec": {"request": "eA==", "signerName": "example.com/s", "usages": ["client auth"]}});
    let before = crate::write::tree(request.clone());
    request["spec"]["signerName"] = "example.com/t".into();
    request["status"] =
        json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="});
    let approved = crate::write::approval(&before, crate::write::tree(request));
    assert_eq!(approved["spec"]["signerName"], "example.com/s");
    assert_eq!(approved["status"], json!({"conditions": [{"type": "Approved", "status": "True"}]}));
    assert_eq!(server.get(&format!("{REQUESTS}/none/approval")).await.0, 404);
}

#[tokio::test]
async fn namespace_is_deleted_with_its_last_finalizer() {
    let server = server().await;
    let namespace = json!({"metadata": {"name": "shop"}, "spec": {"finalizers": ["kubernetes"]}});
    server.json("POST", NAMESPACES, namespace).await;
    let path = format!("{NAMESPACES}/shop");
    let (_, mut ending) = server.json("DELETE", &path, json!({})).await;
    assert!(ending["metadata"]["deletionTimestamp"].is_string(), "{ending}");
    assert_eq!(server.get(&path).await.0, 200);
    ending["spec"]["finalizers"] = json!([]);
    ending["metadata"]["labels"] = json!({"a": "b"});
    let (code, last) = server.json("PUT", &format!("{path}/finalize"), ending).await;
    assert_eq!((code, &last["metadata"]["labels"]["a"]), (200, &json!("b")), "{last}");
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn deletecollection_deletes_only_selected_objects() {
    let server = server().await;
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut map = map(name);
        map["metadata"]["labels"] = json!({"tier": tier});
        server.json("POST", MAPS, map).await;
    }
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let selected = format!("{MAPS}?labelSelector=tier%3Dx");
    let (code, list) = server.json("DELETE", &selected, json!({"dryRun": ["All"]})).await;
    assert_eq!((code, names(&list)), (200, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(names(&server.get(MAPS).await.1).len(), 3, "a dry run removes nothing");
    let (_, list) = server.json("DELETE", &selected, json!({})).await;
    assert_eq!((&list["kind"], names(&list).len()), (&json!("ConfigMapList"), 2));
    assert_eq!(names(&server.get(MAPS).await.1), ["c"]);
    assert_eq!(server.json("DELETE", "/api/v1/configmaps", json!({})).await.0, 405, "not of all namespaces");
}

#[tokio::test]
async fn put_creates_only_kinds_that_permit_it() {
    let server = server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |name: &str, more: Value| {
        let mut lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": "me"}});
        lease["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        lease
    };
    let path = format!("{leases}/a");
    let (code, made) = server.json("PUT", &path, lease("a", json!({"resourceVersion": "7"}))).await;
    assert_eq!(code, 201, "{made}");
    let (code, again) = server
        .json("PUT", &path, lease("a", json!({"resourceVersion": made["metadata"]["resourceVersion"]})))
        .await;
    assert_eq!((code, &again["metadata"]["uid"]), (200, &made["metadata"]["uid"]), "{again}");
    refused(
        server.json("PUT", &path, lease("b", json!({}))).await,
        400,
        "BadRequest",
        "does not match the name on the URL",
    );
    let gone = server.json("PUT", &format!("{leases}/b"), lease("b", json!({"uid": "x"}))).await;
    refused(gone, 409, "Conflict", "UID in precondition: x, UID in object meta: ");
    let dry = server.json("PUT", &format!("{leases}/b?dryRun=All"), lease("b", json!({}))).await;
    assert_eq!((dry.0, server.get(&format!("{leases}/b")).await.0), (201, 404));
    let map = server.json("PUT", &format!("{MAPS}/a"), json!({"metadata": {"name": "a"}})).await;
    refused(map, 404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test]
async fn a_new_node_keeps_its_status_and_a_new_pod_does_not() {
    let server = server().await;
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2000m"}}});
    let (code, made) = server.json("POST", "/api/v1/nodes", node).await;
    assert_eq!((code, &made["status"]["capacity"]["cpu"]), (201, &json!("2")), "{made}");
    let bad = json!({"metadata": {"name": "m"}, "status": {"capacity": {"cpu": "-1"}}});
    refused(server.json("POST", "/api/v1/nodes", bad).await, 422, "Invalid", "status.capacity");
    let mut with_status = pod("p", json!({}));
    with_status["status"] = json!({"phase": "Failed"});
    let (_, made) = server.json("POST", PODS, with_status).await;
    assert_ne!(made["status"]["phase"], "Failed", "{made}");
}

#[tokio::test]
async fn verbs_that_a_row_does_not_list_are_not_allowed() {
    let server = server().await;
    assert_eq!(server.json("POST", PODS, pod("p", json!({}))).await.0, 201);
    for (method, path) in [
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("GET", "/api/v1/namespaces/default/bindings?watch=true"),
        ("PUT", "/api/v1/namespaces/default/bindings/a"),
        ("DELETE", "/api/v1/namespaces/default/bindings"),
        ("POST", "/api/v1/namespaces/default/pods/p"),
        ("GET", "/api/v1/namespaces/default/pods/p/eviction"),
        ("POST", "/api/v1/namespaces/default/pods/p/status"),
        ("PATCH", "/api/v1/namespaces/default/finalize"),
        ("GET", "/api/v1/namespaces/default/finalize"),
        ("TRACE", "/api/v1/namespaces/default/pods"),
    ] {
        let answer = server.json(method, path, json!({})).await;
        refused(answer, 405, "MethodNotAllowed", "the server does not allow this method");
    }
    refused(
        server.json("POST", "/api/v1/namespaces/default/pods/p/nothing", json!({})).await,
        404,
        "NotFound",
        "",
    );
}

#[tokio::test]
async fn events_are_equal_in_both_api_groups() {
    let server = server().await;
    let (core, newer) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    let event = json!({"metadata": {"name": "new"}, "regarding": about, "note": "so it is", "type": "Normal",
        "reason": "Because", "action": "Doing", "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/c", "reportingInstance": "c-0"});
    let (code, made) = server.json("POST", newer, event.clone()).await;
    assert_eq!(
        (code, &made["apiVersion"], &made["note"]),
        (201, &json!("events.k8s.io/v1"), &json!("so it is")),
        "{made}"
    );
    let (code, stored) = server.get(&format!("{core}/new")).await;
    assert_eq!(
        (code, &stored["apiVersion"], &stored["involvedObject"]),
        (200, &json!("v1"), &about),
        "{stored}"
    );
    assert_eq!(
        (&stored["message"], &stored["reportingComponent"]),
        (&json!("so it is"), &json!("example.com/c"))
    );

    let old = json!({"metadata": {"name": "old"}, "involvedObject": {"kind": "Node", "name": "n"}, "message": "old words",
        "count": 3, "source": {"component": "kubelet"}});
    let (code, made) = server.json("POST", core, old).await;
    assert_eq!(code, 201, "{made}");
    let (_, list) = server.get(newer).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("events.k8s.io/v1")));
    assert_eq!(list["items"][1]["note"], "old words", "{list}");
    assert_eq!((&list["items"][1]["deprecatedCount"], &list["items"][1]["count"]), (&json!(3), &Value::Null));

    for (path, names) in [
        (
            format!("{newer}?fieldSelector=regarding.name%3Dp,reportingController%3Dexample.com/c"),
            json!(["new"]),
        ),
        (format!("{newer}?fieldSelector=regarding.kind%3DNode"), json!(["old"])),
        (format!("{core}?fieldSelector=involvedObject.name%3Dp"), json!(["new"])),
    ] {
        let (_, list) = server.get(&path).await;
        let found: Value =
            list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
        assert_eq!(found, names, "{path}");
    }
    let wrong = server.get(&format!("{newer}?fieldSelector=involvedObject.name%3Dp")).await;
    refused(wrong, 400, "BadRequest", "field label not supported: involvedObject.name");
    let patch =
        json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000006Z"}}).to_string();
    let (code, patched, _) = server.send_request("PATCH", &format!("{newer}/new"), MERGE, patch).await;
    assert_eq!((code, &patched["series"]["count"]), (200, &json!(2)), "{patched}");
    let unset = json!({"metadata": {"name": "bad"}, "deprecatedCount": 1});
    refused(
        server.json("POST", newer, unset).await,
        422,
        "Invalid",
        "deprecatedCount: Invalid value: 1: needs to be unset",
    );
    assert_eq!(server.json("DELETE", &format!("{newer}/old"), Value::Null).await.0, 200);
    assert_eq!(server.get(&format!("{core}/old")).await.0, 404);
}

#[tokio::test]
async fn v1beta3_pods_are_v1_pods_with_a_host_field() {
    let server = server().await;
    let old = "/api/v1beta3/namespaces/default/pods";
    let (code, made) = server.json("POST", old, pod("a", json!({"x": "y"}))).await;
    assert_eq!(
        (code, &made["apiVersion"], &made["status"]["host"]),
        (201, &json!("v1beta3"), &Value::Null),
        "{made}"
    );
    let binding = json!({"apiVersion": "v1beta3", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let (code, bound) = server.json("POST", &format!("{old}/a/binding"), binding).await;
    assert_eq!(code, 201, "{bound}");
    let (_, seen) = server.get(&format!("{old}/a")).await;
    assert_eq!((&seen["status"]["host"], &seen["spec"]["nodeName"]), (&json!("n1"), &json!("n1")), "{seen}");
    let (_, stored) = server.get(&format!("{PODS}/a")).await;
    assert_eq!(
        (&stored["spec"]["nodeName"], &stored["status"]["host"]),
        (&json!("n1"), &Value::Null),
        "{stored}"
    );

    let mut finished = pod("b", json!({}));
    finished["status"] = json!({"host": "n2"});
    let (code, made) = server.json("POST", old, finished.clone()).await;
    assert_eq!(
        (code, &made["spec"]["nodeName"], &made["status"]["host"]),
        (201, &json!("n2"), &json!("n2")),
        "{made}"
    );
    finished["metadata"]["name"] = json!("c");
    finished["spec"]["nodeName"] = json!("n3");
    let strict = server.json("POST", &format!("{old}?fieldValidation=Strict"), finished).await;
    refused(strict, 400, "BadRequest", "status.host");

    let mut changed = seen.clone();
    changed["metadata"]["labels"]["x"] = json!("z");
    let (code, written) = server.json("PUT", &format!("{old}/a"), changed).await;
    assert_eq!(
        (code, &written["metadata"]["labels"]["x"], &written["status"]["host"]),
        (200, &json!("z"), &json!("n1")),
        "{written}"
    );
    status(&server, &format!("{old}/a"), json!({"phase": "Running"})).await;
    let (_, stored) = server.get(&format!("{PODS}/a")).await;
    assert_eq!(
        (&stored["status"]["phase"], &stored["status"]["host"], &stored["metadata"]["labels"]["x"]),
        (&json!("Running"), &Value::Null, &json!("z")),
        "{stored}"
    );
    let (_, list) = server.get(&format!("{old}?fieldSelector=spec.nodeName%3Dn1")).await;
    assert_eq!(
        (list["items"].as_array().unwrap().len(), &list["items"][0]["status"]["host"]),
        (1, &json!("n1")),
        "{list}"
    );
    let (code, dying) = server.json("DELETE", &format!("{old}/a"), Value::Null).await;
    assert_eq!(
        (code, &dying["apiVersion"], &dying["status"]["host"]),
        (200, &json!("v1beta3"), &json!("n1")),
        "{dying}"
    );
}

#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    use std::io::Read as _;

    let server = server().await;
    for (name, size) in [("large", 200_000), ("small", 1000)] {
        let map = json!({"metadata": {"name": name}, "data": {"a": "x".repeat(size)}});
        assert_eq!(server.json("POST", MAPS, map).await.0, 201);
    }
    for (path, accepted, packed) in [
        ("large", "gzip", true),
        ("large", "br, gzip;q=0.5", true),
        ("large", "gzip;q=0", false),
        ("large", "identity", false),
        ("small", "gzip", false),
        ("?watch=true&timeoutSeconds=1", "gzip", false),
    ] {
        let slash = if path.starts_with('?') { "" } else { "/" };
        let request =
            Request::builder().uri(format!("{MAPS}{slash}{path}")).header(header::ACCEPT_ENCODING, accepted);
        let answer = server.0.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let is_packed = answer.headers().get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
        assert_eq!((answer.status().as_u16(), is_packed), (200, packed), "{path} {accepted}");
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        if packed {
            let mut plain = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut plain).unwrap();
            assert!(bytes.len() < 5000 && plain.len() > 200_000, "{} of {}", bytes.len(), plain.len());
            assert!(serde_json::from_str::<Value>(&plain).unwrap()["data"]["a"].is_string());
        }
    }
}

#[tokio::test]
async fn bindings_resource_gives_no_access_to_pods() {
    let server = server().await;
    let (code, made) = server.json("POST", PODS, pod("p", json!({}))).await;
    assert_eq!(code, 201, "{made}");
    const BINDINGS: &str = "/api/v1/namespaces/default/bindings";
    for (method, path, code) in [
        ("PUT", "/p", 405),
        ("PATCH", "/p", 405),
        ("DELETE", "/p", 405),
        ("DELETE", "", 405),
        ("GET", "/p", 405),
        ("GET", "", 405),
        ("PUT", "/p/status", 404),
        ("POST", "/p/eviction", 404),
    ] {
        let answer = server.send_request(method, &format!("{BINDINGS}{path}"), MERGE, made.to_string()).await;
        assert_eq!(answer.0, code, "{method} {path}: {}", answer.1);
    }
    assert_eq!(server.get(&format!("{PODS}/p")).await, (200, made));
}
