//! Nodes without heartbeats that return, on a paused clock, and disruption budgets.

use super::*;

/// Renewal interval of a node's lease; the stock kubelet's.
const RENEWED: Duration = Duration::from_secs(10);
const LEASES: &str = "kube-node-lease";

/// A server with all controllers.
struct Bed {
    client: Client,
}

impl Bed {
    async fn new() -> Self {
        let client = running(Controllers::All).await;
        namespace(&client, "shop").await;
        Self { client }
    }

    /// Creates a ready Node.
    async fn register(&self, name: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "z"}},
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
        });
        self.client.create(&Kind::NODE, "", node).await.unwrap();
    }

    /// Creates a ready Node with a lease.
    async fn node(&self, name: &str) {
        self.register(name).await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        self.client.create(&Kind::LEASE, LEASES, lease).await.unwrap();
    }

    /// Sets the Ready condition of a node to true.
    async fn says_ready(&self, name: &str) {
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": Timestamp::now().to_string()});
        let patch = json!({"status": {"conditions": [ready]}});
        self.client.patch_subresource(&Kind::NODE, "", name, "status", patch).await.unwrap();
    }

    /// Advances the clock while these nodes renew their leases.
    async fn pass(&self, time: Duration, alive: &[&str]) {
        let until = Instant::now() + time;
        let mut renewals = tokio::time::interval(RENEWED / 2);
        while Instant::now() < until {
            for node in alive {
                let renewed = format!("{:.6}", Timestamp::now());
                let patch = json!({"spec": {"renewTime": renewed}});
                self.client.patch(&Kind::LEASE, LEASES, node, patch).await.unwrap();
            }
            renewals.tick().await;
        }
    }

    /// A pod on that node, ready, with these tolerations.
    async fn pod(&self, name: &str, node: &str, tolerations: Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "i"}]},
        });
        self.client.create(&Kind::POD, "shop", pod).await.unwrap();
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let patch = json!({"status": ready});
        self.client.patch_subresource(&Kind::POD, "shop", name, "status", patch).await.unwrap();
    }

    async fn get(&self, kind: &Kind, name: &str) -> Json {
        let namespace = if kind.namespaced { "shop" } else { "" };
        self.client.get(kind, namespace, name).await.unwrap()
    }

    /// The Ready status of a node, and its taints without the common prefix.
    async fn state(&self, node: &str) -> (String, Vec<String>) {
        let node = self.get(&Kind::NODE, node).await;
        let taints = at(&node, "/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let name = |taint: &Value| {
            let key = text(taint.get("key"));
            format!("{}:{}", key.trim_start_matches("node.kubernetes.io/"), text(taint.get("effect")))
        };
        let mut taints: Vec<String> = taints.iter().map(name).collect();
        taints.sort();
        (text(condition(&node, "Ready").and_then(|ready| ready.get("status"))), taints)
    }

    /// The pods that are terminating.
    async fn ending(&self) -> Vec<String> {
        let mut found = Vec::new();
        let take = |pod: Json| {
            if at(&pod, "/metadata/deletionTimestamp").is_some() {
                found.push(text(at(&pod, "/metadata/name")));
            }
        };
        self.client.list(&Kind::POD, "shop", take).await.unwrap();
        found
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let mut found = Vec::new();
        let take = |event: Json| {
            if event.get("reason").and_then(Value::as_str) == Some(reason) {
                found.push(text(event.get("message")));
            }
        };
        self.client.list(&Kind::EVENT, "", take).await.unwrap();
        found.sort();
        found
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Tolerations of not-ready and unreachable nodes for this many seconds.
fn bears(seconds: Value) -> Value {
    let key = |name: &str| json!({"key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    json!([key("not-ready"), key("unreachable")])
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_unknown_and_loses_its_pods_until_it_is_back() {
    let bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
    }
    bed.pod("short", "a", bears(json!(30))).await;
    bed.pod("long", "a", bears(json!(300))).await;
    bed.pod("ever", "a", bears(Value::Null)).await;
    bed.pod("none", "a", json!([])).await;
    bed.pod("other", "b", json!([])).await;
    bed.pass(seconds(45), &["b"]).await;
    assert_eq!(bed.state("a").await, ("True".to_owned(), vec![]), "its grace is not over");
    bed.pass(seconds(10), &["b"]).await;
    assert_eq!(bed.state("a").await, ("Unknown".to_owned(), vec!["unreachable:NoSchedule".to_owned()]));
    bed.pass(seconds(15), &["b"]).await;
    let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"].map(str::to_owned);
    assert_eq!(bed.state("a").await, ("Unknown".to_owned(), taints.to_vec()));
    assert_eq!(bed.state("b").await, ("True".to_owned(), vec![]));
    assert_eq!(bed.ending().await, ["none"]);
    let none = bed.get(&Kind::POD, "none").await;
    assert_eq!(condition(&none, "DisruptionTarget").unwrap()["reason"], "DeletionByTaintManager");
    for (pod, is_ready) in [("ever", "False"), ("other", "True")] {
        let found = bed.get(&Kind::POD, pod).await;
        assert!(condition_is(&found, "Ready", is_ready), "{pod} {found:?}");
    }
    assert_eq!(bed.events("NodeNotReady").await.len(), 5, "the node and its four pods");
    let written = bed.get(&Kind::NODE, "a").await;

    bed.pass(seconds(30), &["b"]).await;
    assert_eq!(bed.ending().await, ["none", "short"]);
    assert_eq!(bed.get(&Kind::NODE, "a").await, written, "it is told once");
    bed.says_ready("a").await;
    bed.pass(seconds(400), &["a", "b"]).await;
    assert_eq!(bed.state("a").await, ("True".to_owned(), vec![]));
    assert_eq!(bed.ending().await, ["none", "short"]);
    assert_eq!(
        bed.events("TaintManagerEviction").await,
        [
            "Cancelling deletion of Pod shop/long",
            "Marking for deletion Pod shop/none",
            "Marking for deletion Pod shop/short"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn controller_evicts_no_pods_while_all_nodes_are_unreachable() {
    let bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
    }
    bed.pod("none", "a", json!([])).await;
    bed.pass(seconds(20), &["a", "b"]).await;
    bed.pass(seconds(600), &[]).await;
    for node in ["a", "b"] {
        assert_eq!(bed.state(node).await, ("Unknown".to_owned(), vec!["unreachable:NoSchedule".to_owned()]));
    }
    bed.says_ready("a").await;
    bed.pass(seconds(40), &["a"]).await;
    assert_eq!(bed.state("b").await.1.len(), 1, "the other one has its whole grace");
    bed.pass(seconds(40), &["a"]).await;
    assert_eq!(bed.state("b").await.1.len(), 2, "one that is heard is enough");
    assert_eq!(bed.ending().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_moves_lets_the_zone_it_leaves_go_on() {
    let bed = Bed::new().await;
    for node in ["a", "b", "c", "d", "e"] {
        bed.node(node).await;
    }
    bed.pass(seconds(20), &["a", "b", "c", "d", "e"]).await;
    bed.pass(seconds(120), &["d", "e"]).await;
    for node in ["a", "b", "c"] {
        assert_eq!(bed.state(node).await.1.len(), 1, "three of five in a small zone: none loses its pods");
    }
    let moved = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}});
    bed.client.patch(&Kind::NODE, "", "c", moved).await.unwrap();
    bed.pass(seconds(60), &["d", "e"]).await;
    for node in ["a", "b"] {
        assert_eq!(bed.state(node).await.1.len(), 2, "two of four are few");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_go_after_a_while() {
    let bed = Bed::new().await;
    bed.node("a").await;
    bed.pod("lost", "a", json!([])).await;
    // A Node that was missing and has returned gets a full quarantine again.
    bed.client.delete(&Kind::NODE, "", "a", &DeleteOptions::default()).await.unwrap();
    bed.pass(seconds(30), &[]).await;
    bed.register("a").await;
    bed.pass(seconds(5), &[]).await;
    bed.pod("stray", "never", json!([])).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    bed.client.patch(&Kind::POD, "shop", "stray", held).await.unwrap();
    bed.client.delete(&Kind::NODE, "", "a", &DeleteOptions::default()).await.unwrap();
    bed.pass(seconds(35), &[]).await;
    assert_eq!(bed.ending().await, Vec::<String>::new());
    bed.pass(seconds(10), &[]).await;
    assert!(bed.client.find(&Kind::POD, "shop", "lost").await.unwrap().is_none());
    let stray = bed.get(&Kind::POD, "stray").await;
    assert_eq!(text(at(&stray, "/status/phase")), "Failed");
    assert_eq!(condition(&stray, "DisruptionTarget").unwrap()["reason"], "DeletionByPodGC");
}

#[tokio::test(start_paused = true)]
async fn pods_that_would_go_from_a_node_that_is_out_of_service_go() {
    let bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
    }
    bed.pod("stuck", "a", bears(json!(0))).await;
    bed.pass(seconds(70), &["b"]).await;
    assert_eq!(bed.ending().await, ["stuck"]);
    let mut node = bed.get(&Kind::NODE, "a").await;
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"});
    node["spec"]["taints"].as_array_mut().unwrap().push(taint);
    bed.client.update(&Kind::NODE, "", node).await.unwrap();
    until(&bed.client, &Kind::POD, |found| found.is_empty()).await;
}

#[tokio::test]
async fn a_stale_disruption_condition_becomes_false() {
    let bed = Bed::new().await;
    let second = Duration::from_secs(1);
    for (name, age, reason) in [
        ("stale", Some(180 * second), "EvictionByEvictionAPI"),
        ("timeless", None, "Drained"),
        ("recent", Some(60 * second), "EvictionByEvictionAPI"),
        ("terminated", Some(180 * second), "TerminationByKubelet"),
    ] {
        bed.pod(name, "n", json!([])).await;
        let start = age.map(|age| (Timestamp::now() - age).to_string());
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": start});
        let patch = json!({"status": {"conditions": [condition]}});
        bed.client.patch_subresource(&Kind::POD, "shop", name, "status", patch).await.unwrap();
    }
    let has = |found: &BTreeMap<String, Json>, name: &str, status: &str| {
        found.get(name).is_some_and(|pod| condition_is(pod, "DisruptionTarget", status))
    };
    until(&bed.client, &Kind::POD, |found| {
        has(found, "shop/stale", "False") && has(found, "shop/timeless", "False")
    })
    .await;
    until(&bed.client, &Kind::POD, |found| {
        has(found, "shop/recent", "True") && has(found, "shop/terminated", "True")
    })
    .await;
}

#[tokio::test]
async fn a_budget_records_why_it_protects_no_pod() {
    let bed = Bed::new().await;
    let budget = |name: &str, app: &str| {
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}});
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
    };
    bed.pod("a", "n", json!([])).await;
    for (name, app) in [("empty", "none"), ("unmanaged", "web")] {
        bed.client.create(&Kind::DISRUPTION_BUDGET, "shop", budget(name, app)).await.unwrap();
    }
    let is_recorded = |found: &BTreeMap<String, Json>, name: &str, reason: &str, text: &str| {
        found.values().any(|event| {
            let field = |path: &str| at(event, path).and_then(Value::as_str).unwrap_or_default();
            field("/involvedObject/name") == name
                && field("/reason") == reason
                && field("/message").contains(text)
        })
    };
    until(&bed.client, &Kind::EVENT, |found| {
        is_recorded(found, "empty", "NoPods", "The selector matches no pod.")
            && is_recorded(found, "unmanaged", "UnmanagedPods", "have no controller")
    })
    .await;
}

#[tokio::test]
async fn a_budget_counts_its_pods_and_what_is_to_be() {
    let bed = Bed::new().await;
    let budget = |name: &str, spec: Value| {
        let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
        budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        budget
    };
    let least = budget("least", json!({"minAvailable": 1}));
    bed.client.create(&Kind::DISRUPTION_BUDGET, "shop", least).await.unwrap();
    let numbers = |found: &BTreeMap<String, Json>, name: &str| {
        let number = |field: &str| {
            let status =
                found.get(name).and_then(|budget| at(budget, "/status")).cloned().unwrap_or_default();
            status.get(field).and_then(Value::as_i64).unwrap_or_default()
        };
        ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"].map(number)
    };
    until(&bed.client, &Kind::DISRUPTION_BUDGET, |found| {
        found.get("shop/least").is_some_and(|budget| condition_is(budget, "DisruptionAllowed", "False"))
    })
    .await;
    bed.pod("a", "n", json!([])).await;
    bed.pod("b", "n", json!([])).await;
    let allows =
        |wanted: [i64; 4]| move |found: &BTreeMap<String, Json>| numbers(found, "shop/least") == wanted;
    until(&bed.client, &Kind::DISRUPTION_BUDGET, allows([2, 1, 2, 1])).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    bed.client.create_subresource(&Kind::POD, "shop", "a", "eviction", eviction.clone()).await.unwrap();
    until(&bed.client, &Kind::DISRUPTION_BUDGET, |found| {
        numbers(found, "shop/least") == [2, 1, 1, 0]
            && at(&found["shop/least"], "/status/disruptedPods").is_none_or(|pods| *pods == json!({}))
    })
    .await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}});
    let refused =
        bed.client.create_subresource(&Kind::POD, "shop", "b", "eviction", eviction).await.unwrap_err();
    assert!(refused.to_string().contains("429"), "{refused}");

    // The ReplicaSet wants three pods, however many exist.
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let sets = Kind::of("apps", "ReplicaSet", "replicasets", true);
    let uid = text(at(&bed.client.create(&sets, "shop", set).await.unwrap(), "/metadata/uid"));
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid, "controller": true});
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    for pod in ["a", "b"] {
        bed.client.patch(&Kind::POD, "shop", pod, owned.clone()).await.unwrap();
    }
    let share = json!({"spec": {"minAvailable": null, "maxUnavailable": "34%"}});
    bed.client.patch(&Kind::DISRUPTION_BUDGET, "shop", "least", share).await.unwrap();
    until(&bed.client, &Kind::DISRUPTION_BUDGET, allows([3, 1, 1, 0])).await;
    let stranger = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "uid": "x", "controller": true}]);
    bed.client
        .patch(&Kind::POD, "shop", "b", json!({"metadata": {"ownerReferences": stranger}}))
        .await
        .unwrap();
    until(&bed.client, &Kind::DISRUPTION_BUDGET, |found| {
        let condition = condition(&found["shop/least"], "DisruptionAllowed");
        condition.is_some_and(|condition| condition["reason"] == "SyncFailed")
    })
    .await;
}
