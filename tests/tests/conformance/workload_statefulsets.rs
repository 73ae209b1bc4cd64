//! StatefulSets: scaling in order, updates by partition and rollbacks on a real node, and claims and statuses with pods
//! that need not run.

use serde_json::{Value, json};
use tests::IMAGE;

use crate::cluster::{Cluster, Watch};
use crate::node::Node;
use crate::workload_plans::{self, BROKEN};
use crate::workloads::{kubectl, pods_of};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const OWN: &str = "/apis/apps/v1/namespaces/default/statefulsets/web";

fn set(replicas: i64, pod: &Value) -> Value {
    let labels = json!({"app": "web"});
    json!({"metadata": {"name": "web"}, "spec": {"serviceName": "web", "replicas": replicas,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}})
}

/// A pod that is ready while the file `/tmp/ready` exists.
fn running() -> Value {
    json!({"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false, "containers": [{
        "name": "main", "image": IMAGE,
        "command": ["sh", "-c", "trap 'exit 0' TERM; touch /tmp/ready; sleep 3600 & wait"],
        "env": [{"name": "VERSION", "value": "1"}],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 1},
    }]})
}

/// A pod that the test makes ready.
fn pretended(image: &str) -> Value {
    json!({"containers": [{"name": "c", "image": image}]})
}

fn is_ready(count: i64) -> impl Fn(&Value) -> bool {
    move |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["replicas"] == count
            && status["readyReplicas"].as_i64().unwrap_or(0) == count
    }
}

/// Whether the controller has seen the present specification.
fn is_observed(set: &Value) -> bool {
    set["status"]["observedGeneration"] == set["metadata"]["generation"]
}

async fn scale(cluster: &Cluster, replicas: i64) {
    cluster.update(&format!("{OWN}/scale"), |scale| scale["spec"]["replicas"] = json!(replicas)).await;
}

/// The names of the next pods of which the watch shows an event of this type.
async fn next_pods(watch: &mut Watch, kind: &str, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    while names.len() < count {
        let (seen, pod) = watch.next().await;
        if seen == kind {
            names.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
        }
    }
    names
}

/// The values of `VERSION` in the pods, by name.
async fn versions(node: &Node) -> Vec<String> {
    let mut all: Vec<String> = pods_of(node, "web")
        .await
        .iter()
        .map(|pod| {
            let version = pod["spec"]["containers"][0]["env"][0]["value"].as_str().unwrap();
            format!("{} {version}", pod["metadata"]["name"].as_str().unwrap())
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn ordered_scaling_waits_for_an_unhealthy_pod() {
    let node = Node::scheduled("stateful").await;
    let cluster = &node.cluster;
    cluster.post(SETS, &set(1, &running())).await.is(201);
    cluster.until(OWN, is_ready(1)).await;
    assert_eq!(node.exec("web-0", "main", &["hostname"]).await.trim(), "web-0");
    let pod = cluster.get(&format!("{PODS}/web-0")).await.is(200);
    assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "0");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-0"), &json!("web")));

    let start = cluster.revision(PODS).await;
    let mut watch = cluster.watch(&format!("{PODS}?labelSelector=app%3Dweb&resourceVersion={start}")).await;
    node.exec("web-0", "main", &["rm", "/tmp/ready"]).await;
    cluster.until(OWN, |set| set["status"]["readyReplicas"].is_null()).await;
    scale(cluster, 3).await;
    cluster.until(OWN, is_observed).await;
    assert_eq!(pods_of(&node, "web").await.len(), 1, "web-0 is not ready");
    node.exec("web-0", "main", &["touch", "/tmp/ready"]).await;
    assert_eq!(next_pods(&mut watch, "ADDED", 2).await, ["web-1", "web-2"]);
    cluster.until(OWN, is_ready(3)).await;

    // Scaling down waits at a pod that is not ready while one before it is not ready.
    for pod in ["web-0", "web-1", "web-2"] {
        node.exec(pod, "main", &["rm", "/tmp/ready"]).await;
    }
    cluster.until(OWN, |set| set["status"]["readyReplicas"].is_null()).await;
    scale(cluster, 0).await;
    cluster.until(OWN, is_observed).await;
    assert_eq!(pods_of(&node, "web").await.len(), 3, "no pod is ready");
    // Then web-2 is the first pod that is not ready, and is deleted at once.
    for pod in ["web-0", "web-1"] {
        node.exec(pod, "main", &["touch", "/tmp/ready"]).await;
    }
    assert_eq!(next_pods(&mut watch, "DELETED", 3).await, ["web-2", "web-1", "web-0"]);
    let scaled = cluster.get(&format!("{OWN}/scale")).await.is(200);
    // As in stock, a Scale omits 0 replicas.
    assert_eq!(
        (&scaled["spec"]["replicas"], &scaled["status"]["selector"]),
        (&json!(null), &json!("app=web"))
    );
}

#[tokio::test]
async fn updates_follow_the_partition_and_are_rolled_back() {
    let node = Node::scheduled("partitions").await;
    let cluster = &node.cluster;
    let partition = async |count: i64| {
        let rolling = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": count}}}});
        cluster.patch(OWN, &rolling).await.is(200);
    };
    cluster.post(SETS, &set(3, &running())).await.is(201);
    partition(3).await;
    let status = "rollout status statefulset/web --timeout=120s";
    cluster.until(OWN, is_ready(3)).await;
    kubectl(&node, "set env statefulset/web VERSION=2").await;
    let waiting =
        cluster.until(OWN, |set| set["status"]["updateRevision"] != set["status"]["currentRevision"]).await;
    let of = |revision: &str| waiting["status"][revision].as_str().unwrap().to_owned();
    let (current, update) = (of("currentRevision"), of("updateRevision"));
    assert_eq!(versions(&node).await, ["web-0 1", "web-1 1", "web-2 1"]);

    // The canary.
    partition(2).await;
    assert!(kubectl(&node, status).await.contains("partitioned roll out complete: 1 new pods"));
    assert_eq!(versions(&node).await, ["web-0 1", "web-1 1", "web-2 2"]);
    // Pods that are deleted keep their revisions.
    kubectl(&node, "delete pod web-0 web-2").await;
    // The status may still be that from before the deletion.
    let recreated = async || match versions(&node).await {
        all if all == ["web-0 1", "web-1 1", "web-2 2"] => Ok(()),
        all => Err(all.join(", ")),
    };
    node.world.wait_for("the pods to be recreated", recreated).await;
    cluster.until(OWN, is_ready(3)).await;
    let revision = async |pod: &str| {
        let pod = cluster.get(&format!("{PODS}/{pod}")).await.is(200);
        pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap().to_owned()
    };
    assert_eq!((revision("web-0").await, revision("web-2").await), (current.clone(), update.clone()));

    partition(0).await;
    kubectl(&node, status).await;
    assert_eq!(versions(&node).await, ["web-0 2", "web-1 2", "web-2 2"]);
    let done = cluster.get(OWN).await.is(200);
    assert_eq!(
        (&done["status"]["currentRevision"], &done["status"]["updatedReplicas"]),
        (&json!(update), &json!(3))
    );

    kubectl(&node, "rollout undo statefulset/web").await;
    kubectl(&node, status).await;
    assert_eq!(versions(&node).await, ["web-0 1", "web-1 1", "web-2 1"]);
    assert_eq!(
        cluster.get(OWN).await.is(200)["status"]["currentRevision"],
        current,
        "the revision is reused"
    );
    let history = kubectl(&node, "rollout history statefulset/web").await;
    let words = history.lines().filter_map(|line| line.split_whitespace().next());
    let revisions: Vec<&str> = words.filter(|word| word.parse::<u64>().is_ok()).collect();
    assert_eq!(revisions, ["2", "3"], "{history}");
    kubectl(&node, "delete statefulset web --cascade=foreground").await;
    assert_eq!(pods_of(&node, "web").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_pod_that_the_node_rejects_is_recreated() {
    // Reserved until the pods are gone.
    let port = tests::free_port();
    let node = Node::scheduled("rejected").await;
    let cluster = &node.cluster;
    let with_port = |mut pod: Value| {
        pod["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port.number}]);
        pod["nodeName"] = json!(node.world.node);
        pod
    };
    node.make("first", json!({"spec": with_port(running())})).await;
    node.ready("first").await;
    cluster.post(SETS, &set(1, &with_port(running()))).await.is(201);
    let uid = async || {
        let pod = cluster.until(&format!("{PODS}/web-0"), |pod| !pod["metadata"]["uid"].is_null()).await;
        pod["metadata"]["uid"].clone()
    };
    let rejected = uid().await;
    cluster
        .until(&format!("{PODS}?fieldSelector=metadata.name%3Dweb-0"), |list| {
            list["items"].as_array().unwrap().iter().any(|pod| pod["metadata"]["uid"] != rejected)
        })
        .await;
    kubectl(&node, "delete pod first").await;
    cluster.until(OWN, is_ready(1)).await;
}

#[tokio::test]
async fn parallel_pods_are_scaled_although_others_are_unhealthy() {
    let cluster = workload_plans::cluster().await;
    let mut web = set(3, &pretended(BROKEN));
    web["spec"]["podManagementPolicy"] = json!("Parallel");
    cluster.post(SETS, &web).await.is(201);
    cluster.until(OWN, |set| set["status"]["replicas"] == 3).await;
    scale(&cluster, 5).await;
    cluster.until(OWN, |set| set["status"]["replicas"] == 5).await;
    scale(&cluster, 0).await;
    cluster.until(OWN, |set| set["status"]["replicas"] == 0 && is_observed(set)).await;
    assert_eq!(cluster.names(PODS).await, [""; 0]);
}

#[tokio::test]
async fn retention_policy_decides_on_the_deletion_of_claims() {
    let cluster = workload_plans::cluster().await;
    let mut web = set(2, &pretended("i:1"));
    web["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    web["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}}}]);
    cluster.post(SETS, &web).await.is(201);
    workload_plans::until(&cluster, OWN, is_ready(2)).await;
    let pod = cluster.get(&format!("{PODS}/web-1")).await.is(200);
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}});
    assert_eq!(pod["spec"]["volumes"][0], volume);
    scale(&cluster, 1).await;
    workload_plans::until(&cluster, OWN, is_ready(1)).await;
    assert_eq!(cluster.names(CLAIMS).await, ["data-web-0", "data-web-1"], "claims are retained");

    // The second pod uses its claim again, and scaling down deletes it.
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let change = json!({"spec": {"replicas": 2, "persistentVolumeClaimRetentionPolicy": policy}});
    cluster.patch(OWN, &change).await.is(200);
    workload_plans::until(&cluster, OWN, is_ready(2)).await;
    cluster
        .until(&format!("{CLAIMS}/data-web-0"), |claim| {
            claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
        })
        .await;
    scale(&cluster, 1).await;
    workload_plans::until(&cluster, OWN, is_ready(1)).await;
    cluster.gone(&format!("{CLAIMS}/data-web-1")).await;
    cluster.delete(OWN).await.is(200);
    cluster.gone(&format!("{CLAIMS}/data-web-0")).await;
}

#[tokio::test]
async fn stateful_set_status_is_patched_and_a_collection_deleted() {
    let cluster = workload_plans::cluster().await;
    let mut web = set(1, &pretended("i:1"));
    web["metadata"]["labels"] = json!({"of": "test"});
    cluster.post(SETS, &web).await.is(201);
    workload_plans::until(&cluster, OWN, is_ready(1)).await;
    let status = format!("{OWN}/status");
    cluster
        .update(&status, |set| {
            set["status"]["conditions"] =
                json!([{"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test"}]);
        })
        .await;
    cluster.patch(&status, &json!({"status": {"replicas": 7}})).await.is(200);
    let kept = cluster.until(OWN, |set| set["status"]["replicas"] == 1).await;
    assert_eq!(kept["status"]["conditions"][0]["type"], "StatusUpdate");
    let patch =
        json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"template": {"spec": pretended("i:2")}}});
    cluster.patch(OWN, &patch).await.is(200);
    workload_plans::until(&cluster, OWN, |set| is_ready(1)(set) && set["status"]["updatedReplicas"] == 1)
        .await;
    let pod = cluster.get(&format!("{PODS}/web-0")).await.is(200);
    assert_eq!(pod["spec"]["containers"][0]["image"], "i:2");
    assert_eq!(cluster.names(&format!("{SETS}?labelSelector=patched%3Dyes")).await, ["web"]);
    cluster.delete(&format!("{SETS}?labelSelector=of%3Dtest")).await.is(200);
    cluster.gone(OWN).await;
}
