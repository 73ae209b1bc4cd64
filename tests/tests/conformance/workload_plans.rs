//! Deployments, ReplicaSets and ReplicationControllers whose pods need not run: the test plays the kubelet.

use serde_json::{Value, json};
use tests::{DEADLINE, wait_until};

use crate::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// An image whose pods never become ready.
pub const BROKEN: &str = "registry.example/broken:1";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(replicas: i64, image: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": template(image)}})
}

pub async fn cluster() -> Cluster {
    let cluster = Cluster::running().await;
    cluster.until("/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
    cluster
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().unwrap()
}

/// Makes all pods ready, except those of a broken image, and deletes those that terminate, until the object satisfies
/// the condition.
pub async fn until(cluster: &Cluster, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        for pod in items(&cluster.get(PODS).await.is(200)) {
            let own = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
            if pod["spec"]["containers"][0]["image"] != BROKEN && pod["status"]["phase"] != "Running" {
                let mut pod = pod.clone();
                pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
                // The pod may have been deleted meanwhile.
                let _ = cluster.put(&format!("{own}/status"), &pod).await;
            }
        }
        match cluster.get(path).await {
            answer if answer.code == 200 && is(&answer.body) => Ok(answer.body),
            answer => Err(answer.text),
        }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{path}: {seen}\n{}", cluster.master.log()))
}

/// Whether all pods of the Deployment are of the present template and available.
fn is_complete(deployment: &Value) -> bool {
    let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[*count] == *wanted)
}

/// The replicas of the ReplicaSets by image.
async fn sizes(cluster: &Cluster) -> Vec<(String, i64)> {
    let list = cluster.get(SETS).await.is(200);
    let of = |set: &Value| {
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
        (image.to_owned(), set["spec"]["replicas"].as_i64().unwrap())
    };
    let mut sizes: Vec<(String, i64)> = items(&list).iter().map(of).collect();
    sizes.sort();
    sizes
}

fn image(cluster: &Cluster, image: &str) -> impl Future<Output = crate::cluster::Answer> {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    async move { cluster.patch(&format!("{DEPLOYMENTS}/web"), &patch).await }
}

#[tokio::test]
async fn a_replica_set_is_adopted_and_replaced_by_a_rolling_update() {
    let cluster = cluster().await;
    let mut set = deployment(2, "i:1");
    set["metadata"] = json!({"name": "early", "labels": {"app": "web"}, "annotations": {"deployment.kubernetes.io/revision": "41"}});
    cluster.post(SETS, &set).await.is(201);
    until(&cluster, &format!("{SETS}/early"), |set| set["status"]["readyReplicas"] == 2).await;
    cluster.post(DEPLOYMENTS, &deployment(2, "i:2")).await.is(201);
    let done = until(&cluster, &format!("{DEPLOYMENTS}/web"), is_complete).await;
    assert_eq!(done["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "42");
    let early = cluster.get(&format!("{SETS}/early")).await.is(200);
    assert_eq!(early["metadata"]["ownerReferences"][0]["kind"], "Deployment");
    assert_eq!(sizes(&cluster).await, [("i:1".to_owned(), 0), ("i:2".to_owned(), 2)]);
    // The new one has the hash in its name, labels, selector and template.
    let list = cluster.get(&format!("{SETS}?labelSelector=pod-template-hash")).await.is(200);
    let new = &items(&list)[0];
    let hash = new["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(new["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(new["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert_eq!(new["spec"]["template"]["metadata"]["labels"]["pod-template-hash"], hash);
}

#[tokio::test]
async fn old_replica_sets_are_deleted_above_the_history_limit() {
    let cluster = cluster().await;
    let mut web = deployment(1, "i:1");
    web["spec"]["revisionHistoryLimit"] = json!(1);
    cluster.post(DEPLOYMENTS, &web).await.is(201);
    let own = format!("{DEPLOYMENTS}/web");
    until(&cluster, &own, is_complete).await;
    for version in ["i:2", "i:3"] {
        image(&cluster, version).await.is(200);
        until(&cluster, &own, is_complete).await;
    }
    until(&cluster, SETS, |list| items(list).len() == 2).await;
    assert_eq!(sizes(&cluster).await, [("i:2".to_owned(), 0), ("i:3".to_owned(), 1)]);
}

#[tokio::test]
async fn a_rollout_is_scaled_in_proportion() {
    let cluster = cluster().await;
    let mut web = deployment(10, "i:1");
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    cluster.post(DEPLOYMENTS, &web).await.is(201);
    let own = format!("{DEPLOYMENTS}/web");
    until(&cluster, &own, is_complete).await;
    image(&cluster, BROKEN).await.is(200);
    until(&cluster, &own, |web| web["status"]["updatedReplicas"] == 5 && web["status"]["replicas"] == 13)
        .await;
    assert_eq!(sizes(&cluster).await, [("i:1".to_owned(), 8), (BROKEN.to_owned(), 5)]);
    cluster.update(&format!("{own}/scale"), |scale| scale["spec"]["replicas"] = json!(30)).await;
    until(&cluster, &own, |web| web["status"]["replicas"] == 33).await;
    assert_eq!(sizes(&cluster).await, [("i:1".to_owned(), 20), (BROKEN.to_owned(), 13)]);
}

#[tokio::test]
async fn a_rollover_ends_at_the_last_template() {
    let cluster = cluster().await;
    cluster.post(DEPLOYMENTS, &deployment(3, "i:1")).await.is(201);
    let own = format!("{DEPLOYMENTS}/web");
    until(&cluster, &own, is_complete).await;
    image(&cluster, BROKEN).await.is(200);
    until(&cluster, &own, |web| web["status"]["updatedReplicas"] == 1).await;
    image(&cluster, "i:2").await.is(200);
    let done = until(&cluster, &own, is_complete).await;
    assert_eq!(sizes(&cluster).await, [("i:1".to_owned(), 0), ("i:2".to_owned(), 3), (BROKEN.to_owned(), 0)]);
    let progress =
        done["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Progressing");
    assert_eq!(progress.unwrap()["reason"], "NewReplicaSetAvailable");
}

#[tokio::test]
async fn status_subresources_of_workloads_can_be_read_and_patched() {
    let cluster = cluster().await;
    cluster.post(DEPLOYMENTS, &deployment(1, "i:1")).await.is(201);
    let mut set = deployment(0, "i:1");
    set["metadata"] = json!({"name": "set", "labels": {"of": "test"}});
    set["spec"]["selector"]["matchLabels"] = json!({"app": "set"});
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": "set"});
    cluster.post(SETS, &set).await.is(201);
    until(&cluster, &format!("{DEPLOYMENTS}/web"), is_complete).await;
    let condition =
        json!({"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test"});
    for own in [format!("{DEPLOYMENTS}/web"), format!("{SETS}/set")] {
        let status = format!("{own}/status");
        cluster
            .update(&status, |object| {
                let known = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                object["status"]["conditions"] = known.into_iter().chain([condition.clone()]).collect();
            })
            .await;
        // The controller writes its own counts, and keeps the condition.
        cluster.patch(&status, &json!({"status": {"replicas": 7}})).await.is(200);
        let kept = cluster.until(&own, |object| object["status"]["replicas"] != 7).await;
        let conditions = kept["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|one| one["type"] == "StatusUpdate"), "{kept}");
    }
    assert_eq!(cluster.names(&format!("{SETS}?labelSelector=of%3Dtest")).await, ["set"]);
    cluster.delete(&format!("{SETS}?labelSelector=of%3Dtest")).await.is(200);
    cluster.gone(&format!("{SETS}/set")).await;
}

#[tokio::test]
async fn exhausted_quota_sets_the_replica_failure_condition() {
    let cluster = cluster().await;
    let quota = json!({"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", &quota).await.is(201);
    cluster
        .until("/api/v1/namespaces/default/resourcequotas/two", |quota| !quota["status"]["hard"].is_null())
        .await;
    let controller = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"app": "web"}, "template": template("i:1")}});
    cluster.post(CONTROLLERS, &controller).await.is(201);
    let own = format!("{CONTROLLERS}/web");
    let failed = cluster.until(&own, |web| web["status"]["conditions"][0]["type"] == "ReplicaFailure").await;
    let condition = &failed["status"]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(condition["message"].as_str().unwrap().contains("exceeded quota: two"), "{condition}");
    cluster.update(&own, |web| web["spec"]["replicas"] = json!(2)).await;
    let is_repaired = |web: &Value| web["status"]["conditions"].is_null() && web["status"]["replicas"] == 2;
    cluster.until(&own, is_repaired).await;
}
