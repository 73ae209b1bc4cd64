//! Node lifecycle on a real master: lost heartbeats and recovery, cordon, drain within disruption budgets, and removal.
//! A restarted master evicts no pods at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{DEADLINE, Master, Output, wait_until};

/// Grace period of node heartbeats in these tests.
const GRACE: Duration = Duration::from_secs(6);
/// Interval of heartbeats: short, so that a loaded machine does not miss the grace period.
const RENEWED: Duration = Duration::from_millis(500);
/// Minimum time before pods of a deleted node are removed; it is fixed in the master.
const QUARANTINE: Duration = Duration::from_secs(40);
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// A master, its administrator's client, and simulated nodes.
struct Bed {
    master: Master,
    client: reqwest::Client,
    /// The nodes with heartbeats, and the number of renewals of their leases.
    alive: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Bed {
    async fn new() -> Self {
        let flags = ["--scheduler=true", "--node-monitor-grace-period=6s", "--node-eviction-rate=5"];
        let mut master = Master::new().with_flags(flags);
        master.start().await;
        master.until_account("default").await;
        let bed = Self { client: master.client(), master, alive: Arc::default() };
        tokio::spawn(renew(bed.client.clone(), bed.master.url(LEASES), bed.alive.clone()));
        bed
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request = self.client.request(method.clone(), self.master.url(path));
        if let Some(body) = body {
            let media_type = match method {
                Method::PATCH => "application/strategic-merge-patch+json",
                _ => "application/json",
            };
            request = request.header("content-type", media_type).body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let code = response.status().as_u16();
        (code, serde_json::from_str(&response.text().await.unwrap()).unwrap())
    }

    async fn make(&self, path: &str, object: &Value) -> Value {
        let (code, made) = self.send(Method::POST, path, Some(object)).await;
        assert_eq!(code, 201, "{made}");
        made
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, None).await.1
    }

    /// Creates a Ready Node with a lease.
    async fn node(&self, name: &str) {
        let has = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let labels = json!({"kubernetes.io/hostname": name});
        let made = self
            .make(NODES, &json!({"metadata": {"name": name, "labels": labels}, "status": {"capacity": has, "allocatable": has}}))
            .await;
        let admitted = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        assert_eq!(made["spec"]["taints"], admitted, "{made}");
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": made["metadata"]["uid"]});
        let lease = json!({
            "metadata": {"name": name, "ownerReferences": [owner]},
            // The controller does not use the written time, but the time at which it saw the change.
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2020-01-01T00:00:00.000000Z"},
        });
        self.make(LEASES, &lease).await;
    }

    /// Starts heartbeats of a node.
    async fn runs(&self, node: &str) {
        self.alive.lock().unwrap().insert(node.to_owned(), 0);
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": jiff::Timestamp::now().to_string(), "lastTransitionTime": jiff::Timestamp::now().to_string()});
        let patch = json!({"status": {"conditions": [ready]}});
        let (code, response_body) =
            self.send(Method::PATCH, &format!("{NODES}/{node}/status"), Some(&patch)).await;
        assert_eq!(code, 200, "{response_body}");
    }

    /// Stops heartbeats of a node.
    fn is_silent(&self, node: &str) {
        self.alive.lock().unwrap().remove(node);
    }

    /// Creates a Ready pod on a node; without a grace period it is deleted at once.
    async fn pod(&self, name: &str, node: &str, more: Value) {
        let mut spec = json!({"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.make(
            PODS,
            &json!({"metadata": {"name": name, "labels": {"app": name.split('-').next()}}, "spec": spec}),
        )
        .await;
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let (code, response_body) =
            self.send(Method::PATCH, &format!("{PODS}/{name}/status"), Some(&ready)).await;
        assert_eq!(code, 200, "{response_body}");
    }

    /// Waits until the object at a path fulfils the condition.
    async fn until(&self, path: &str, is_right: impl Fn(&Value) -> bool) {
        self.within(DEADLINE, path, is_right).await;
    }

    async fn within(&self, deadline: Duration, path: &str, is_right: impl Fn(&Value) -> bool) {
        let look = async || match self.get(path).await {
            found if is_right(&found) => Ok(()),
            found => Err(found.to_string()),
        };
        let seen = wait_until(deadline, look).await;
        seen.unwrap_or_else(|seen| panic!("{path} is never right: {seen}\n{}", self.master.log()));
    }

    /// Waits until a node has that Ready status and these taints.
    async fn stands(&self, node: &str, ready: &str, taints: &[&str]) {
        let is_right = |found: &Value| {
            let mut has: Vec<String> = list(&found["spec"]["taints"]).map(name_of_taint).collect();
            has.sort();
            condition(found, "Ready")["status"].as_str().unwrap_or_default() == ready && has == taints
        };
        self.until(&format!("{NODES}/{node}"), is_right).await;
    }

    async fn tried(&self, line: &str) -> Output {
        let admin = self.master.data_dir().join("admin.kubeconfig");
        self.master.kubectl(&admin, &line.split(' ').collect::<Vec<_>>()).await
    }

    /// Output of a kubectl command that must succeed.
    async fn kubectl(&self, line: &str) -> String {
        let output = self.tried(line).await;
        assert!(output.code == 0, "kubectl {line}: {output:?}\n{}", self.master.log());
        output.stdout
    }
}

/// Renews the leases of live nodes while it is polled; ignores errors of an absent master.
async fn renew(client: reqwest::Client, leases: String, alive: Arc<Mutex<BTreeMap<String, u32>>>) {
    let mut ticks = tokio::time::interval(RENEWED);
    loop {
        ticks.tick().await;
        let due: Vec<(String, u32)> = {
            let mut alive = alive.lock().unwrap();
            alive.values_mut().for_each(|count| *count += 1);
            alive.iter().map(|(name, count)| (name.clone(), *count)).collect()
        };
        for (node, count) in due {
            let time = format!("2020-01-01T00:{:02}:{:02}.000000Z", count / 60 % 60, count % 60);
            let patch = json!({"spec": {"renewTime": time}});
            let request = client.patch(format!("{leases}/{node}")).body(patch.to_string());
            let _ = request.header("content-type", "application/merge-patch+json").send().await;
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `not-ready:NoExecute`.
fn name_of_taint(taint: &Value) -> String {
    let key = taint["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/");
    format!("{key}:{}", taint["effect"].as_str().unwrap())
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    list(&object["status"]["conditions"]).find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

fn is_ending(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn is_gone(object: &Value) -> bool {
    object["code"] == 404
}

#[tokio::test]
async fn pods_of_an_unreachable_node_are_evicted_until_it_returns() {
    let bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
        bed.stands(node, "", &["not-ready:NoSchedule"]).await;
    }
    // No node has reported Ready yet.
    let early = json!({"metadata": {"name": "early"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    bed.make(PODS, &early).await;
    bed.until(&format!("{PODS}/early"), |pod| {
        let response_body = condition(pod, "PodScheduled");
        response_body["message"]
            .as_str()
            .is_some_and(|words| words.contains("untolerated taint {node.kubernetes.io/not-ready"))
    })
    .await;
    for node in ["a", "b"] {
        bed.runs(node).await;
        bed.stands(node, "True", &[]).await;
    }
    bed.until(&format!("{PODS}/early"), |pod| pod["spec"]["nodeName"].is_string()).await;

    let unreachable = |seconds: u32| {
        json!({"terminationGracePeriodSeconds": 30, "tolerations": [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]})
    };
    bed.pod("short", "a", unreachable(2)).await;
    bed.pod("usual", "a", json!({})).await;
    bed.is_silent("a");
    bed.stands("a", "Unknown", &["unreachable:NoExecute", "unreachable:NoSchedule"]).await;
    let silent = bed.get(&format!("{NODES}/a")).await;
    assert_eq!(condition(&silent, "Ready")["message"], "Kubelet stopped posting node status.");
    assert_eq!(condition(&silent, "PIDPressure")["status"], "Unknown");
    assert!(bed.kubectl("get node a").await.contains("NotReady"));
    bed.until(&format!("{PODS}/usual"), |pod| condition(pod, "Ready")["status"] == "False").await;
    // The node's kubelet must end the pod, and is absent.
    bed.until(&format!("{PODS}/short"), |pod| {
        is_ending(pod) && condition(pod, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    })
    .await;
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DTaintManagerEviction";
    bed.until(events, |events| {
        list(&events["items"]).any(|event| event["message"] == "Marking for deletion Pod default/short")
    })
    .await;
    let usual = bed.get(&format!("{PODS}/usual")).await;
    assert!(!is_ending(&usual), "five minutes are not over: {usual}");

    bed.runs("a").await;
    bed.stands("a", "True", &[]).await;
    bed.until(events, |events| {
        list(&events["items"]).any(|event| event["message"] == "Cancelling deletion of Pod default/usual")
    })
    .await;
    assert!(bed.kubectl("cordon a").await.contains("cordoned"));
    bed.stands("a", "True", &["unschedulable:NoSchedule"]).await;
    assert!(bed.kubectl("uncordon a").await.contains("uncordoned"));
    bed.stands("a", "True", &[]).await;
}

#[tokio::test]
async fn drain_respects_disruption_budgets_and_pods_of_a_deleted_node_are_deleted() {
    let bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
        bed.runs(node).await;
        bed.stands(node, "True", &[]).await;
    }
    bed.pod("lost", "b", json!({"terminationGracePeriodSeconds": 30})).await;
    bed.is_silent("b");
    let removed = Instant::now();
    bed.kubectl("delete node b").await;
    bed.until(&format!("{LEASES}/b"), is_gone).await;

    bed.pod("web-1", "a", json!({})).await;
    bed.pod("web-2", "a", json!({})).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    bed.make(budgets, &json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let allowed = |budget: &Value| budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
    let allows = |number: i64| move |budget: &Value| allowed(budget) == number;
    bed.until(&format!("{budgets}/web"), allows(1)).await;
    let drain = "drain a --force --timeout=10s";
    let stopped = bed.tried(drain).await;
    assert!(stopped.code != 0, "{stopped:?}");
    assert!(
        stopped.stderr.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{stopped:?}"
    );
    let left = bed.get(&format!("{PODS}?labelSelector=app%3Dweb")).await;
    assert_eq!(list(&left["items"]).count(), 1, "one could go: {left}");
    assert_eq!(allowed(&bed.get(&format!("{budgets}/web")).await), 0);
    bed.stands("a", "True", &["unschedulable:NoSchedule"]).await;

    bed.node("c").await;
    bed.runs("c").await;
    bed.pod("web-3", "c", json!({})).await;
    bed.until(&format!("{budgets}/web"), allows(1)).await;
    assert!(bed.kubectl("drain a --force --timeout=50s").await.contains("drained"));
    let left = bed.get(&format!("{PODS}?labelSelector=app%3Dweb")).await;
    assert_eq!(list(&left["items"]).map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>(), ["web-3"]);

    bed.within(QUARANTINE + DEADLINE, &format!("{PODS}/lost"), is_gone).await;
    assert!(removed.elapsed() >= QUARANTINE, "a node that was away for a moment keeps its pods");
}

#[tokio::test]
async fn a_restarted_master_gives_every_node_the_full_grace_period() {
    let mut bed = Bed::new().await;
    for node in ["a", "b"] {
        bed.node(node).await;
        bed.runs(node).await;
        bed.stands(node, "True", &[]).await;
    }
    bed.pod("none", "a", json!({"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]}))
        .await;
    // After the stop, because the old master must not see the grace period end.
    assert!(bed.master.stop(Signal::TERM).await.success());
    bed.is_silent("a");
    let begun = Instant::now();
    bed.master.start().await;
    bed.until(&format!("{PODS}/none"), is_gone).await;
    assert!(begun.elapsed() >= GRACE, "after {:?}", begun.elapsed());
    bed.stands("a", "Unknown", &["unreachable:NoExecute", "unreachable:NoSchedule"]).await;
    bed.stands("b", "True", &[]).await;
}
