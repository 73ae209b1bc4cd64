//! ReplicaSets, ReplicationControllers and Deployments on a real node: pods run, are replaced, adopted and released.

use serde_json::{Value, json};
use tests::IMAGE;

use crate::node::{Node, with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A pod template whose container runs until it is stopped.
fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {
        "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]}],
    }})
}

/// The selector of a ReplicaSet, or that of a ReplicationController.
fn selector(path: &str, labels: &Value) -> Value {
    if path == SETS { json!({"matchLabels": labels}) } else { labels.clone() }
}

fn set(path: &str, name: &str, replicas: i64) -> Value {
    let labels = json!({"app": name});
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector(path, &labels), "template": template(&labels)}})
}

/// The pods with a value of the label `app` that are not being deleted.
pub async fn pods_of(node: &Node, app: &str) -> Vec<Value> {
    let list = node.cluster.get(&format!("{PODS}?labelSelector=app%3D{app}")).await.is(200);
    let pods = list["items"].as_array().unwrap().iter();
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Runs kubectl, which must succeed; returns its output.
pub async fn kubectl(node: &Node, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = node.cluster.kubectl(&words).await;
    assert_eq!(output.code, 0, "kubectl {line}: {output:?}\n{}", node.cluster.master.log());
    output.stdout
}

#[tokio::test]
async fn replica_set_runs_replaces_and_scales_pods() {
    let node = Node::scheduled("replicas").await;
    for path in [SETS, CONTROLLERS] {
        let app = if path == SETS { "set" } else { "controller" };
        let own = format!("{path}/{app}");
        node.cluster.post(path, &set(path, app, 2)).await.is(201);
        let ready = |count: i64| {
            move |set: &Value| set["status"]["readyReplicas"] == count && set["status"]["replicas"] == count
        };
        node.cluster.until(&own, ready(2)).await;
        let pods = pods_of(&node, app).await;
        let owner = &pods[0]["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["name"], &owner["controller"], pods.len()), (&json!(app), &json!(true), 2));
        assert_eq!(pods[0]["metadata"]["generateName"], format!("{app}-"));

        // A pod that is deleted is replaced.
        node.cluster.delete(&format!("{PODS}/{}", name(&pods[0]))).await.is(200);
        node.cluster.gone(&format!("{PODS}/{}", name(&pods[0]))).await;
        node.cluster.until(&own, ready(2)).await;

        // The status above may be that from before the deletion.
        let has_two = |scale: &Value| scale["spec"]["replicas"] == 2 && scale["status"]["replicas"] == 2;
        node.cluster.until(&format!("{own}/scale"), has_two).await;
        node.cluster.update(&format!("{own}/scale"), |scale| scale["spec"]["replicas"] = json!(3)).await;
        node.cluster.until(&own, ready(3)).await;
        // A template that changes does not concern pods that exist.
        let uids = async || {
            let mut uids: Vec<String> =
                pods_of(&node, app).await.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
            uids.sort();
            uids
        };
        let before = uids().await;
        let more = json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"template": {"metadata": {"annotations": {"new": "yes"}}}}});
        let patched = node.cluster.patch(&own, &more).await.is(200);
        let generation = &patched["metadata"]["generation"];
        node.cluster.until(&own, |set| set["status"]["observedGeneration"] == *generation).await;
        assert_eq!(uids().await, before);
        node.cluster.update(&own, |set| set["spec"]["replicas"] = json!(1)).await;
        node.cluster.until(&own, ready(1)).await;
        let count = |reasons: &[&str], reason| reasons.iter().filter(|one| **one == reason).count();
        let has_all = |reasons: &[&str]| {
            (count(reasons, "SuccessfulCreate"), count(reasons, "SuccessfulDelete")) == (4, 2)
        };
        node.cluster.until_events(app, has_all).await;
        node.cluster.delete_with(&own, "Foreground").await.is(202);
        node.cluster.gone(&own).await;
        assert_eq!(pods_of(&node, app).await, [json!(null); 0]);
    }
}

#[tokio::test]
async fn matching_orphans_are_adopted_and_other_pods_released() {
    let node = Node::scheduled("adopting").await;
    for path in [SETS, CONTROLLERS] {
        let app = if path == SETS { "set" } else { "controller" };
        let mut pod = template(&json!({"app": app}));
        pod["metadata"]["name"] = json!(format!("{app}-orphan"));
        let orphan = format!("{PODS}/{app}-orphan");
        node.cluster.post(PODS, &pod).await.is(201);
        // A controller that does not know the pod yet would create another one.
        node.ready(&format!("{app}-orphan")).await;
        node.cluster.post(path, &set(path, app, 1)).await.is(201);
        let adopted = node
            .cluster
            .until(&orphan, |pod| pod["metadata"]["ownerReferences"][0]["controller"] == true)
            .await;
        assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], app);
        node.cluster.until(&format!("{path}/{app}"), |set| set["status"]["readyReplicas"] == 1).await;
        assert_eq!(pods_of(&node, app).await.len(), 1);
        node.cluster.patch(&orphan, &json!({"metadata": {"labels": {"app": "stranger"}}})).await.is(200);
        node.cluster.until(&orphan, |pod| pod["metadata"]["ownerReferences"].is_null()).await;
        node.cluster
            .until(&format!("{PODS}?labelSelector=app%3D{app}"), |list| {
                list["items"].as_array().unwrap().len() == 1
                    && list["items"][0]["metadata"]["name"] != format!("{app}-orphan")
            })
            .await;
    }
}

#[tokio::test]
async fn kubectl_rolls_out_scales_and_rolls_back_a_deployment() {
    let node = Node::scheduled("rollouts").await;
    kubectl(&node, &format!("create deployment web --image={IMAGE} --replicas=2 -- sleep 3600")).await;
    let status = "rollout status deployment/web --timeout=120s";
    assert!(kubectl(&node, status).await.contains("deployment \"web\" successfully rolled out"));
    kubectl(&node, "scale deployment web --replicas=3").await;
    kubectl(&node, status).await;
    let own = format!("{DEPLOYMENTS}/web");
    node.cluster.until(&own, |web| web["status"]["availableReplicas"] == 3).await;

    kubectl(&node, "set env deployment/web VERSION=2").await;
    kubectl(&node, status).await;
    let pods = pods_of(&node, "web").await;
    let versions = |pods: &[Value]| {
        pods.iter().map(|pod| pod["spec"]["containers"][0]["env"][0]["value"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(versions(&pods), [json!("2"), json!("2"), json!("2")]);
    // An image that does not exist: the rollout stops, and enough pods stay available.
    kubectl(&node, "set image deployment/web *=registry.invalid/none:1").await;
    node.cluster.until(&own, |web| web["status"]["updatedReplicas"] == 1).await;
    assert_eq!(node.cluster.get(&own).await.is(200)["status"]["availableReplicas"], 3);
    let history = kubectl(&node, "rollout history deployment/web").await;
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u64>().is_ok())
        .collect();
    assert_eq!(revisions, ["1", "2", "3"], "{history}");
    kubectl(&node, "rollout undo deployment/web").await;
    kubectl(&node, status).await;
    let rolled_back = node.cluster.get(&own).await.is(200);
    assert_eq!(rolled_back["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "4");
    let uid = |pods: &[Value]| {
        pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let before = uid(&pods);
    assert_eq!(uid(&pods_of(&node, "web").await), before, "the pods of revision 2 were never deleted");

    kubectl(&node, "rollout pause deployment/web").await;
    kubectl(&node, "set env deployment/web VERSION=5").await;
    node.cluster
        .until(&own, |web| web["status"]["observedGeneration"] == web["metadata"]["generation"])
        .await;
    assert_eq!(uid(&pods_of(&node, "web").await), before, "a paused rollout");
    kubectl(&node, "rollout resume deployment/web").await;
    kubectl(&node, status).await;
    assert_eq!(versions(&pods_of(&node, "web").await), [json!("5"), json!("5"), json!("5")]);
    kubectl(&node, "rollout restart deployment/web").await;
    kubectl(&node, status).await;
    let after = pods_of(&node, "web").await;
    assert!(
        after
            .iter()
            .all(|pod| !pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_null())
    );
    let described = kubectl(&node, "describe deployment web").await;
    for words in ["NewReplicaSetAvailable", "MinimumReplicasAvailable", "Scaled up replica set web-"] {
        assert!(described.contains(words), "{words}: {described}");
    }
    // The ReplicaSets and pods go with the Deployment.
    kubectl(&node, "delete deployment web --cascade=foreground").await;
    let left = node.cluster.get(&format!("{SETS}?labelSelector=app%3Dweb")).await.is(200);
    assert_eq!((left["items"].as_array().unwrap().len(), pods_of(&node, "web").await.len()), (0, 0));
}

#[tokio::test]
async fn recreate_strategy_never_runs_old_and_new_pods_together() {
    let node = Node::scheduled("recreating").await;
    let labels = json!({"app": "once"});
    let deployment = |version: &str| {
        let mut template = template(&labels);
        template["spec"]["containers"][0]["env"] = json!([{"name": "VERSION", "value": version}]);
        json!({"metadata": {"name": "once"}, "spec": {"replicas": 2, "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels}, "template": template}})
    };
    node.cluster.post(DEPLOYMENTS, &deployment("1")).await.is(201);
    let own = format!("{DEPLOYMENTS}/once");
    node.cluster.until(&own, |once| once["status"]["availableReplicas"] == 2).await;
    let old: Vec<String> = pods_of(&node, "once").await.iter().map(|pod| name(pod).to_owned()).collect();
    let start = node.cluster.revision(PODS).await;
    let mut watch = node.cluster.watch(&format!("{PODS}?resourceVersion={start}")).await;
    node.cluster
        .update(&own, |once| *once = with(once.clone(), &json!({"spec": deployment("2")["spec"]})))
        .await;
    // The first new pod comes after the last old one has gone.
    let mut gone = 0;
    loop {
        let (kind, pod) = watch.next().await;
        if kind == "DELETED" && old.iter().any(|old| old == name(&pod)) {
            gone += 1;
        }
        if kind == "ADDED" {
            assert_eq!(gone, 2, "{} comes beside old pods", name(&pod));
            break;
        }
    }
    let done = node
        .cluster
        .until(&own, |once| {
            once["status"]["updatedReplicas"] == 2 && once["status"]["availableReplicas"] == 2
        })
        .await;
    assert_eq!(done["status"]["replicas"], 2);
}
