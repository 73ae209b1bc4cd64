//! HorizontalPodAutoscalers with the CPU usage of pods on a real node, through kubectl.

use serde_json::{Value, json};
use tests::IMAGE;

use crate::cluster::Cluster;
use crate::node::Node;
use crate::workloads::{kubectl, pods_of};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";
const EVENTS: &str = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dweb";

/// A Deployment with pods that burn CPU while the file `/tmp/busy` exists. A limit keeps enough CPU for everything else.
fn busy() -> Value {
    let labels = json!({"app": "web"});
    let burn =
        "trap 'exit 0' TERM; touch /tmp/busy; while :; do if [ ! -e /tmp/busy ]; then sleep 1; fi; done";
    let container = json!({
        "name": "main", "image": IMAGE, "command": ["sh", "-c", burn],
        "resources": {"requests": {"cpu": "20m"}, "limits": {"cpu": "100m"}},
    });
    let pod = json!({"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false, "containers": [container]});
    json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod}}})
}

fn has_condition(scaler: &Value, kind: &str, status: &str, reason: &str) -> bool {
    let conditions = scaler["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == kind && condition["status"] == status && condition["reason"] == reason
    })
}

/// Waits for an event whose message contains these words. The autoscaler writes it after it has scaled the target.
async fn until_event(cluster: &Cluster, words: &str) {
    let has_words = |event: &Value| event["message"].as_str().is_some_and(|message| message.contains(words));
    cluster.until(EVENTS, |events| events["items"].as_array().unwrap().iter().any(has_words)).await;
}

#[tokio::test]
async fn a_deployment_follows_the_cpu_usage_of_its_pods() {
    let node = Node::scheduled("autoscaling").await;
    let cluster = &node.cluster;
    let own = format!("{DEPLOYMENTS}/web");
    cluster.post(DEPLOYMENTS, &busy()).await.is(201);
    cluster.until(&own, |web| web["status"]["readyReplicas"] == 1).await;

    kubectl(&node, "autoscale deployment web --min=1 --max=3 --cpu-percent=50").await;
    cluster.until(&own, |web| web["spec"]["replicas"] == 3).await;
    cluster.until(&own, |web| web["status"]["readyReplicas"] == 3).await;
    // At the maximum, the usage of all pods is known.
    let scaler = cluster
        .until(SCALER, |scaler| {
            scaler["status"]["currentReplicas"] == 3
                && has_condition(scaler, "ScalingLimited", "True", "TooManyReplicas")
        })
        .await;
    let current = &scaler["status"]["currentMetrics"][0]["resource"]["current"];
    assert!(current["averageUtilization"].as_i64().unwrap() > 100, "{scaler}");
    assert!(has_condition(&scaler, "ScalingActive", "True", "ValidMetricFound"), "{scaler}");
    assert_eq!(scaler["status"]["observedGeneration"], scaler["metadata"]["generation"]);

    let table = kubectl(&node, "get hpa web").await;
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let heads = ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS", "AGE"];
    assert_eq!(lines.next().unwrap(), heads);
    let row = lines.next().unwrap().join(" ");
    assert!(row.starts_with("web Deployment/web ") && row.contains("%/50% 1 3 3 "), "{table}");
    let described = kubectl(&node, "describe hpa web").await;
    let words: Vec<&str> = described.split_whitespace().collect();
    let words = words.join(" ");
    for expected in [
        "AbleToScale True",
        "ScalingActive True ValidMetricFound",
        "ScalingLimited True TooManyReplicas",
        "Normal SuccessfulRescale",
        "horizontal-pod-autoscaler New size: 3; reason: cpu resource utilization (percentage of request) above target",
    ] {
        assert!(words.contains(expected), "{expected}: {described}");
    }

    // With a short window, idle pods are removed at once.
    let window = json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 1}}}});
    cluster.patch(SCALER, &window).await.is(200);
    for pod in pods_of(&node, "web").await {
        node.exec(pod["metadata"]["name"].as_str().unwrap(), "main", &["rm", "/tmp/busy"]).await;
    }
    // The first window after that is still busy in part, so there may be a step between.
    cluster.until(&own, |web| web["spec"]["replicas"] != 3).await;
    cluster.until(&own, |web| web["spec"]["replicas"] == 1 && web["status"]["replicas"] == 1).await;
    until_event(cluster, "New size: 1; reason: All metrics below target").await;

    // A user who scales to 0 disables the autoscaler.
    kubectl(&node, "scale deployment web --replicas=0").await;
    cluster.until(SCALER, |scaler| has_condition(scaler, "ScalingActive", "False", "ScalingDisabled")).await;
    assert_eq!(cluster.get(&own).await.is(200)["spec"]["replicas"], 0);
}
