//! Removal of pods by others: evictions and disruption budgets, taints, and preemption by priority.

use serde_json::{Value, json};
use tests::Pod;
use tests::manifest::FOREVER;

use crate::node::{Node, path, shell, with};

const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
const HELD: &str = "e2e.example.com/held";

/// A pod that runs until it is removed.
fn runs(labels: &Value, spec: &Value) -> Value {
    let spec = with(json!({"containers": [shell(FOREVER)]}), spec);
    json!({"metadata": {"labels": labels}, "spec": spec})
}

#[tokio::test]
async fn disruption_budget_blocks_evictions_until_it_allows_them() {
    let node = Node::running("budget").await;
    let cluster = &node.cluster;
    let (collection, _) = BUDGET.rsplit_once('/').unwrap();
    let spec = json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}});
    cluster.post(collection, &json!({"metadata": {"name": "web"}, "spec": spec})).await.is(201);
    let names = ["one", "two", "three"];
    for name in names {
        node.make(name, runs(&json!({"app": "web"}), &json!({}))).await;
    }
    for name in names {
        node.ready(name).await;
    }
    let counts = |budget: &Value, expected: [i64; 4]| {
        let fields = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"];
        fields.iter().zip(expected).all(|(field, count)| budget["status"][field] == count)
            && budget["status"]["observedGeneration"] == budget["metadata"]["generation"]
    };
    cluster.until(BUDGET, |budget| counts(budget, [3, 3, 3, 0])).await;
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        cluster.post(&format!("{}/eviction", path(name)), &eviction).await
    };
    evict("one").await.refuses(429, "disruption budget");
    cluster.patch(BUDGET, &json!({"spec": {"minAvailable": 2}})).await.is(200);
    cluster.until(BUDGET, |budget| counts(budget, [3, 3, 2, 1])).await;
    evict("one").await.is(201);
    cluster.gone(&path("one")).await;
    cluster.until(BUDGET, |budget| counts(budget, [2, 2, 2, 0])).await;
    evict("two").await.refuses(429, "disruption budget");

    // The status is a subresource.
    let status = format!("{BUDGET}/status");
    let noted = json!({"two": "2100-01-01T00:00:00Z"});
    let updated = cluster.update(&status, |budget| budget["status"]["disruptedPods"] = noted.clone()).await;
    assert_eq!(updated["status"]["disruptedPods"], noted);
    let taken = json!({"status": {"disruptedPods": null}});
    let patched = cluster.patch(&status, &taken).await.is(200);
    assert_eq!(patched["status"]["disruptedPods"], json!(null));
    cluster.until(BUDGET, |budget| counts(budget, [2, 2, 2, 0])).await;
}

#[tokio::test]
async fn taint_eviction_respects_toleration_seconds_and_taint_removal() {
    let node = Node::running("taints").await;
    let cluster = &node.cluster;
    let of_node = format!("/api/v1/nodes/{}", node.world.node);
    let bears = |seconds: i64| {
        let toleration = json!({"key": "e2e", "operator": "Equal", "value": "evict", "effect": "NoExecute", "tolerationSeconds": seconds});
        runs(&json!({}), &json!({"tolerations": [toleration]}))
    };
    node.make("not", runs(&json!({}), &json!({}))).await;
    node.make("shortly", bears(1)).await;
    node.make("long", bears(1000)).await;
    for name in ["not", "shortly", "long"] {
        node.ready(name).await;
    }
    let taint = json!({"key": "e2e", "value": "evict", "effect": "NoExecute"});
    cluster
        .update(&of_node, |node| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            node["spec"]["taints"] = taints.into_iter().chain([taint.clone()]).collect();
        })
        .await;
    cluster.gone(&path("not")).await;
    cluster.gone(&path("shortly")).await;
    cluster
        .update(&of_node, |node| {
            node["spec"]["taints"].as_array_mut().unwrap().retain(|taint| taint["key"] != "e2e");
        })
        .await;
    let events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dlong,reason%3DTaintManagerEviction";
    let cancelled = |events: &Value| {
        let messages = events["items"].as_array().unwrap().iter().map(|event| event["message"].to_string());
        messages.into_iter().any(|message| message.contains("Cancelling deletion of Pod default/long"))
    };
    cluster.until(events, cancelled).await;
    let spared = node.ready("long").await;
    assert_eq!(spared.0["metadata"]["deletionTimestamp"], json!(null), "{}", spared.0);
}

#[tokio::test]
async fn high_priority_pods_preempt_others() {
    let node = Node::scheduled("weight").await;
    let cluster = &node.cluster;
    for (name, value) in [("low", 1), ("high", 100)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.is(201);
    }
    let (cores, _) = crate::pod_volumes::amounts(&node.object().await["status"]["allocatable"]);
    let amount = json!({"requests": {"cpu": format!("{}m", cores * 600)}});
    let of_class = |class: &str| {
        let main = with(shell(FOREVER), &json!({"resources": amount}));
        runs(&json!({}), &json!({"nodeName": "", "priorityClassName": class, "containers": [main]}))
    };
    let mut low = of_class("low");
    low["metadata"]["finalizers"] = json!([HELD]);
    node.make("low", low).await;
    node.ready("low").await;

    node.make("high", of_class("high")).await;
    let is_target = |pod: &Pod| {
        let conditions = pod.0["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget");
        found.is_some_and(|found| found["status"] == "True" && found["reason"] == "PreemptionByScheduler")
            && pod.0["metadata"]["deletionTimestamp"].is_string()
    };
    node.until("low", "to have to go", is_target).await;
    cluster.patch(&path("low"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.gone(&path("low")).await;
    node.ready("high").await;

    cluster.until("/api/v1/namespaces/kube-system/serviceaccounts/default", |_| true).await;
    node.make("kube-system/critical", of_class("system-cluster-critical")).await;
    node.ready("kube-system/critical").await;
    cluster.gone(&path("high")).await;
}
