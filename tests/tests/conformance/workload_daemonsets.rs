//! DaemonSets on real nodes: pods follow nodes and their labels, are replaced, roll out and roll back.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{IMAGE, Pod};

use crate::node::{Node, join};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";

/// A DaemonSet whose containers run until they are stopped.
fn daemon_set(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]}],
        },
    }}})
}

/// The pods of a DaemonSet that are not being deleted.
async fn pods_of(node: &Node, app: &str) -> Vec<Value> {
    let list = node.cluster.get(&format!("{PODS}?labelSelector=app%3D{app}")).await.is(200);
    let pods = list["items"].as_array().unwrap().iter();
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
}

/// Waits until the only pod of a DaemonSet is a Ready successor of the old one. The status of the DaemonSet does not
/// show that, because it may still be that from before the old pod ended.
async fn successor(node: &Node, app: &str, old: &Value) -> Value {
    let look = async || {
        let pods = pods_of(node, app).await;
        match &*pods {
            [pod] if name(pod) != name(old) && Pod(pod.clone()).is_ready() => Ok(pod.clone()),
            _ => Err(format!("{pods:?}")),
        }
    };
    node.world.wait_for(&format!("a successor of {}", name(old)), look).await
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Runs kubectl, which must succeed; returns its output.
async fn kubectl(node: &Node, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = node.cluster.kubectl(&words).await;
    assert_eq!(output.code, 0, "kubectl {line}: {output:?}\n{}", node.cluster.master.log());
    output.stdout
}

/// Whether the controller has seen the DaemonSet, and the given number of nodes run an available pod of its template.
fn runs_on(nodes: i64) -> impl Fn(&Value) -> bool {
    move |set: &Value| {
        let (status, count) = (&set["status"], |field: &str| set["status"][field].as_i64().unwrap_or(0));
        let counts =
            ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && counts.iter().all(|field| count(field) == nodes)
            && count("numberMisscheduled") == 0
    }
}

#[tokio::test]
async fn daemon_set_runs_and_replaces_a_pod_on_each_node() {
    let node = Node::scheduled("daemons").await;
    node.cluster.post(SETS, &daemon_set("agent")).await.is(201);
    let own = format!("{SETS}/agent");
    node.cluster.until(&own, runs_on(1)).await;
    let pods = pods_of(&node, "agent").await;
    let [pod] = &*pods else { panic!("not one pod") };
    assert_eq!(pod["spec"]["nodeName"], node.world.node.as_str());
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    let keys: Vec<&str> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert!(keys.contains(&"node.kubernetes.io/unschedulable") && keys.len() == 6, "{keys:?}");

    // A pod that is deleted or has failed is replaced.
    node.cluster.delete(&format!("{PODS}/{}", name(pod))).await.is(200);
    node.cluster.gone(&format!("{PODS}/{}", name(pod))).await;
    let second = successor(&node, "agent", pod).await;
    node.cluster.until(&own, runs_on(1)).await;
    let failed = json!({"status": {"phase": "Failed"}});
    node.cluster.patch(&format!("{PODS}/{}/status", name(&second)), &failed).await.is(200);
    node.cluster.gone(&format!("{PODS}/{}", name(&second))).await;
    successor(&node, "agent", &second).await;
    node.cluster.until(&own, runs_on(1)).await;

    // A node without a kubelet and without resources gets a pod that waits. The pod goes with the node.
    node.cluster.post(NODES, &json!({"metadata": {"name": "daemons-empty"}})).await.is(201);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    node.cluster.patch(&format!("{NODES}/daemons-empty/status"), &ready).await.is(200);
    node.cluster.until(&own, |set| set["status"]["currentNumberScheduled"] == 2).await;
    let pods = pods_of(&node, "agent").await;
    let waits = pods.iter().find(|pod| pod["spec"]["nodeName"].is_null()).unwrap();
    let required =
        &waits["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
    assert_eq!(*field, json!({"key": "metadata.name", "operator": "In", "values": ["daemons-empty"]}));
    node.cluster.delete(&format!("{NODES}/daemons-empty")).await.is(200);
    node.cluster.gone(&format!("{PODS}/{}", name(waits))).await;
    node.cluster.until(&own, runs_on(1)).await;

    let events = kubectl(&node, "describe daemonset agent").await;
    for reason in ["SuccessfulCreate", "SuccessfulDelete", "FailedDaemonPod", "daemonset-controller"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
    node.cluster.delete_with(&own, "Foreground").await.is(202);
    node.cluster.gone(&own).await;
    assert_eq!(pods_of(&node, "agent").await, [json!(null); 0]);
}

#[tokio::test]
async fn daemon_pods_follow_the_labels_and_taints_of_nodes() {
    let node = Node::scheduled("colors").await;
    let (own, me) = (format!("{SETS}/color"), format!("{NODES}/{}", node.world.node));
    let mut set = daemon_set("color");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"color": "blue"});
    node.cluster.post(SETS, &set).await.is(201);
    node.cluster.until(&own, runs_on(0)).await;
    let color = async |color: &str| {
        node.cluster.patch(&me, &json!({"metadata": {"labels": {"color": color}}})).await.is(200);
    };
    color("blue").await;
    node.cluster.until(&own, runs_on(1)).await;
    color("green").await;
    node.cluster.until(&own, runs_on(0)).await;
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"color": "green"}}}}});
    node.cluster.patch(&own, &selector).await.is(200);
    node.cluster.until(&own, runs_on(1)).await;

    // A NoSchedule taint lets the pod run, and prevents the next one. A NoExecute taint ends it.
    kubectl(&node, &format!("taint node {} own=x:NoSchedule", node.world.node)).await;
    let is_misscheduled = |set: &Value| set["status"]["numberMisscheduled"] == 1;
    node.cluster.until(&own, is_misscheduled).await;
    assert_eq!(pods_of(&node, "color").await.len(), 1);
    kubectl(&node, &format!("taint node {} own=x:NoExecute", node.world.node)).await;
    node.cluster.until(&own, runs_on(0)).await;
    kubectl(&node, &format!("taint node {} own-", node.world.node)).await;
    node.cluster.until(&own, runs_on(1)).await;
    // A drained node keeps its daemon pods.
    let before = pods_of(&node, "color").await;
    kubectl(&node, &format!("drain {} --ignore-daemonsets", node.world.node)).await;
    node.cluster.until(&own, runs_on(1)).await;
    assert_eq!(name(&pods_of(&node, "color").await[0]), name(&before[0]));
}

#[tokio::test]
async fn kubectl_rolls_a_daemon_set_out_and_back() {
    let node = Node::scheduled("daemon-rollouts").await;
    let _second = join(&node.cluster, "daemon-rollouts-2").await;
    node.cluster.post(SETS, &daemon_set("agent")).await.is(201);
    let (own, status) = (format!("{SETS}/agent"), "rollout status daemonset/agent --timeout=120s");
    assert!(kubectl(&node, status).await.contains("daemon set \"agent\" successfully rolled out"));
    node.cluster.until(&own, runs_on(2)).await;
    let values = |pods: &[Value]| {
        pods.iter().map(|pod| pod["spec"]["containers"][0]["env"][0]["value"].clone()).collect::<Vec<_>>()
    };
    kubectl(&node, "set env daemonset/agent VERSION=2").await;
    kubectl(&node, status).await;
    let pods = pods_of(&node, "agent").await;
    assert_eq!(values(&pods), [json!("2"), json!("2")]);
    assert_eq!(pods[0]["metadata"]["labels"]["pod-template-generation"], "2");

    // An image that does not exist: one pod stays available, and is not restarted by the rollback.
    kubectl(&node, "set image daemonset/agent *=registry.invalid/none:1").await;
    let is_stuck = |set: &Value| {
        (&set["status"]["updatedNumberScheduled"], &set["status"]["numberAvailable"])
            == (&json!(1), &json!(1))
    };
    node.cluster.until(&own, is_stuck).await;
    let history = kubectl(&node, "rollout history daemonset/agent").await;
    let numbers = |history: &str| {
        let words = history.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        words.collect::<Vec<_>>()
    };
    assert_eq!(numbers(&history), [1, 2, 3], "{history}");
    kubectl(&node, "rollout undo daemonset/agent").await;
    kubectl(&node, status).await;
    let after = pods_of(&node, "agent").await;
    assert_eq!(values(&after), [json!("2"), json!("2")]);
    let kept = after.iter().filter(|pod| pods.iter().any(|old| name(old) == name(pod))).count();
    assert_eq!(kept, 1, "the pod of revision 2 was never deleted");
    assert_eq!(numbers(&kubectl(&node, "rollout history daemonset/agent").await), [1, 3, 4]);
    kubectl(&node, "rollout undo daemonset/agent --to-revision=1").await;
    kubectl(&node, status).await;
    assert_eq!(values(&pods_of(&node, "agent").await), [Value::Null, Value::Null]);

    // With surge, a new pod is available before the old one ends.
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
    node.cluster.patch(&own, &surge).await.is(200);
    let start = node.cluster.revision(PODS).await;
    let mut watch = node.cluster.watch(&format!("{PODS}?resourceVersion={start}")).await;
    kubectl(&node, "rollout restart daemonset/agent").await;
    let (mut ready, mut ended) = (BTreeSet::new(), BTreeSet::new());
    while ended.len() < 2 {
        let (_, pod) = watch.next().await;
        let on = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let is_new = pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string();
        if is_new && Pod(pod.clone()).is_ready() {
            ready.insert(on);
        } else if !is_new && pod["metadata"]["deletionTimestamp"].is_string() {
            assert!(ready.contains(&on), "{} ends before its successor is ready", name(&pod));
            ended.insert(on);
        }
    }
    kubectl(&node, status).await;
    node.cluster.until(&own, runs_on(2)).await;
}
