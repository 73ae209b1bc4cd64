//! Parts of objects with a path of their own, and whole collections.

use super::*;
use crate::kinds;

const NAMESPACES: &str = "/api/v1/namespaces";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn server() -> Server {
    Server::of(kinds::all(), |_| Vec::new()).await
}

/// A pod as the strategy of pods takes it, so that these tests are about its parts alone.
fn pod(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{
        "name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log"}],
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}})
}

async fn status(server: &Server, path: &str, status: Value) {
    let patch = json!({"status": status}).to_string();
    let (code, answer, _) = server.ask("PATCH", &format!("{path}/status"), MERGE, patch).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn numbers_are_scaled_apart_from_the_rest() {
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
        server.ask("PATCH", &path, MERGE, json!({"spec": {"replicas": 3}}).to_string()).await;
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
async fn a_pod_is_bound_once() {
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
}

#[tokio::test]
async fn evictions_keep_the_budget_of_the_pod() {
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
    let told = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    status(&server, &format!("{BUDGETS}/web"), told).await;
    assert_eq!(evict("policy/v1beta1", "a").await.0, 201);
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404);
    let now = server.get(&format!("{BUDGETS}/web")).await.1;
    assert_eq!(now["status"]["disruptionsAllowed"], 0);
    assert!(now["status"]["disruptedPods"]["a"].is_string(), "{now}");
    let spent = evict("policy/v1", "b").await;
    assert_eq!(spent.1["details"]["causes"][0]["reason"], "DisruptionBudget");
    refused(spent, 429, "TooManyRequests", "violate the pod's disruption budget");
    status(&server, &format!("{PODS}/c"), json!({"phase": "Succeeded"})).await;
    assert_eq!(evict("policy/v1", "c").await.0, 201, "what does no work is no loss");
    assert_eq!(evict("policy/v1", "none").await.0, 404);
    assert_eq!(evict("v1", "b").await.0, 400);
}

#[tokio::test]
async fn a_part_changes_its_own_fields_only() {
    let server = server().await;
    server.json("POST", PODS, pod("p", json!({}))).await;
    let path = format!("{PODS}/p");
    let debugger = json!({"spec": {"containers": [{"name": "c", "image": "other"}], "ephemeralContainers": [
        {"name": "d", "image": "busybox", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
         "terminationMessagePath": "/dev/termination-log"}]}});
    let strategic = "application/strategic-merge-patch+json";
    let (code, told, _) =
        server.ask("PATCH", &format!("{path}/ephemeralcontainers"), strategic, debugger.to_string()).await;
    assert_eq!(code, 200, "{told}");
    assert_eq!(
        (&told["spec"]["ephemeralContainers"][0]["name"], &told["spec"]["containers"][0]["image"]),
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
async fn a_namespace_goes_when_its_last_finalizer_is_done() {
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
    assert_eq!((code, last["metadata"]["labels"].get("a")), (200, None), "{last}");
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_collection_goes_as_its_selectors_say() {
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
    assert_eq!(server.json("DELETE", "/api/v1/configmaps", json!({})).await.0, 404, "not of all namespaces");
}

#[tokio::test]
async fn a_put_makes_what_it_may_make() {
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
