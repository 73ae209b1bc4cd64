//! The scheduler on a real master: binding, spreading, stock failure messages, scheduling gates, several schedulers,
//! and extenders.

mod extender;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};
use tests::{DEADLINE, Master, Process, binary, wait_until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

/// A master and its administrator's client.
struct Bed {
    master: Master,
    client: reqwest::Client,
}

impl Bed {
    async fn new() -> Self {
        // No kubelet sends heartbeats here, so a long grace period keeps nodes Ready for the whole test.
        let mut master = Master::new().with_flags(["--scheduler=true", "--node-monitor-grace-period=1h"]);
        master.start().await;
        Self::of(master).await
    }

    async fn of(master: Master) -> Self {
        master.until_account("default").await;
        Self { client: master.client(), master }
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request = self.client.request(method.clone(), self.master.url(path));
        if let Some(body) = body {
            let media_type = match method {
                reqwest::Method::PATCH => "application/merge-patch+json",
                _ => "application/json",
            };
            request = request.header("content-type", media_type).body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let code = response.status().as_u16();
        (code, serde_json::from_str(&response.text().await.unwrap()).unwrap())
    }

    async fn make(&self, path: &str, object: &Value) {
        let (code, made) = self.send(reqwest::Method::POST, path, Some(object)).await;
        assert_eq!(code, 201, "{made}");
    }

    async fn get(&self, path: &str) -> Value {
        self.send(reqwest::Method::GET, path, None).await.1
    }

    async fn patch(&self, path: &str, patch: &Value) {
        let (code, answer) = self.send(reqwest::Method::PATCH, path, Some(patch)).await;
        assert_eq!(code, 200, "{answer}");
    }

    async fn delete(&self, path: &str) {
        let now = json!({"gracePeriodSeconds": 0});
        let (code, answer) = self.send(reqwest::Method::DELETE, path, Some(&now)).await;
        assert_eq!(code, 200, "{answer}");
    }

    /// Creates a node with four CPUs in that zone, with these fields of `spec`.
    async fn node(&self, name: &str, zone: &str, spec: Value) {
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let has = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"capacity": has, "allocatable": has, "conditions": ready});
        self.make(
            NODES,
            &json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}),
        )
        .await;
        // A new node has the not-ready taint until the master has seen that it is Ready.
        let look = async || {
            let node = self.get(&format!("{NODES}/{name}")).await;
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let is_new = taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready");
            if is_new { Err(node.to_string()) } else { Ok(()) }
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", self.master.log()));
    }

    /// Creates a pod with that CPU request and these fields of `spec`.
    async fn pod(&self, name: &str, cpu: &str, mut spec: Value) {
        spec["containers"] = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
        self.make(PODS, &json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})).await;
    }

    async fn node_of(&self, name: &str) -> String {
        let pod = self.get(&format!("{PODS}/{name}")).await;
        pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the pod is bound. Returns the node's name.
    async fn bound(&self, name: &str) -> String {
        let look = async || match self.node_of(name).await {
            none if none.is_empty() => Err(format!("{name} has no node")),
            node => Ok(node),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", self.master.log()))
    }

    /// Waits until the PodScheduled condition has that reason and message.
    async fn waits(&self, name: &str, reason: &str, words: &str) {
        let look = async || {
            let pod = self.get(&format!("{PODS}/{name}")).await;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|condition| condition["type"] == "PodScheduled").cloned();
            match found {
                Some(found) if found["reason"] == reason && found["message"] == words => Ok(()),
                other => Err(format!("{name}: {other:?}")),
            }
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", self.master.log()));
    }

    /// Waits for an event of the pod with that reason. Returns its message.
    async fn event(&self, name: &str, reason: &str) -> String {
        let look = async || {
            let events = self.get("/api/v1/namespaces/default/events").await;
            let found = events["items"].as_array().unwrap().iter();
            let mut found =
                found.filter(|event| event["involvedObject"]["name"] == name && event["reason"] == reason);
            found.next().map(|event| event["message"].as_str().unwrap().to_owned()).ok_or(events.to_string())
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("no {reason} of {name}: {seen}"))
    }

    /// Waits for an event of the pod with that reason and message. Earlier attempts can have other messages.
    async fn has_event(&self, name: &str, reason: &str, message: &str) {
        let look = async || {
            let events = self.get("/api/v1/namespaces/default/events").await;
            let mut found = events["items"].as_array().unwrap().iter();
            let is_there = found.any(|event| {
                let is_of = event["involvedObject"]["name"] == name && event["reason"] == reason;
                is_of && event["message"] == message
            });
            if is_there { Ok(()) } else { Err(events.to_string()) }
        };
        wait_until(DEADLINE, look)
            .await
            .unwrap_or_else(|seen| panic!("{name}: no {reason} {message}: {seen}"));
    }

    /// Waits until the scheduler knows the node. It watches nodes and pods separately, so a new pod can overtake a
    /// node.
    async fn until_known(&self, node: &str, scheduler: &str) {
        let name = format!("probe-{node}");
        let spec = json!({
            "schedulerName": scheduler, "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "c", "image": "i"}],
        });
        self.make(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await;
        assert_eq!(self.bound(&name).await, node);
    }

    /// Starts a separate scheduler.
    async fn scheduler(&self, name: &str) -> Process {
        let kubeconfig = self.master.user("system:kube-scheduler", &[]).await;
        let mut command = Command::new(binary("master"));
        command.args(["scheduler", "--kubeconfig"]).arg(kubeconfig);
        Process::start(&mut command, &self.master.data_dir().join(format!("{name}.log")))
    }
}

/// The message of an unschedulable pod, including the result of preemption.
fn words(nodes: usize, why: &str, victims: usize) -> String {
    let none = format!("0/{nodes} nodes are available:");
    let mut room = Vec::new();
    if victims > 0 {
        room.push(format!("{victims} No preemption victims found for incoming pod"));
    }
    if victims < nodes {
        room.push(format!("{} Preemption is not helpful for scheduling", nodes - victims));
    }
    format!("{none} {why}. preemption: {none} {}.", room.join(", "))
}

#[tokio::test]
async fn pods_are_scheduled_or_get_an_unschedulable_reason() {
    let bed = Bed::new().await;
    bed.pod("early", "1", json!({})).await;
    bed.waits("early", "Unschedulable", "no nodes available to schedule pods").await;
    bed.node("a", "x", json!({})).await;
    assert_eq!(bed.bound("early").await, "a");
    assert_eq!(bed.event("early", "Scheduled").await, "Successfully assigned default/early to a");
    let pod = bed.get(&format!("{PODS}/early")).await;
    let scheduled = pod["status"]["conditions"].as_array().unwrap();
    assert!(scheduled.iter().any(|of| of["type"] == "PodScheduled" && of["status"] == "True"), "{pod}");

    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    bed.node("b", "x", json!({"taints": [taint]})).await;
    bed.node("c", "y", json!({"unschedulable": true})).await;
    bed.pod("large", "3500m", json!({})).await;
    let why = "1 Insufficient cpu, 1 node(s) had untolerated taint {k: v}, 1 node(s) were unschedulable";
    bed.waits("large", "Unschedulable", &words(3, why, 1)).await;
    bed.has_event("large", "FailedScheduling", &words(3, why, 1)).await;
    // The scheduler retries when a node becomes schedulable.
    bed.patch(&format!("{NODES}/c"), &json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(bed.bound("large").await, "c");
    bed.pod("bears", "3500m", json!({"tolerations": [{"key": "k", "operator": "Exists"}]})).await;
    assert_eq!(bed.bound("bears").await, "b");
    // The scheduler uses resources that a deleted pod has freed.
    bed.pod("next", "3500m", json!({"nodeSelector": {"kubernetes.io/hostname": "c"}})).await;
    let why = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {k: v}";
    bed.waits("next", "Unschedulable", &words(3, why, 1)).await;
    bed.delete(&format!("{PODS}/large")).await;
    assert_eq!(bed.bound("next").await, "c");
}

#[tokio::test]
async fn pods_follow_spread_constraints_and_anti_affinity() {
    let bed = Bed::new().await;
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y")] {
        bed.node(name, zone, json!({})).await;
    }
    bed.until_known("c", "default-scheduler").await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
    let mut zones = BTreeMap::<&str, usize>::new();
    for count in 0..6 {
        bed.pod(&format!("spread-{count}"), "10m", spread.clone()).await;
    }
    for count in 0..6 {
        let node = bed.bound(&format!("spread-{count}")).await;
        *zones.entry(if node == "c" { "y" } else { "x" }).or_default() += 1;
    }
    assert_eq!(zones, BTreeMap::from([("x", 3), ("y", 3)]));

    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"group": "one"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    for count in 0..4 {
        let mut pod = json!({"metadata": {"name": format!("apart-{count}"), "labels": {"group": "one"}}, "spec": apart});
        pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
        bed.make(PODS, &pod).await;
    }
    let look = async || {
        let mut nodes = Vec::new();
        for count in 0..4 {
            nodes.push(bed.node_of(&format!("apart-{count}")).await);
        }
        nodes.sort();
        if nodes == ["", "a", "b", "c"] { Ok(()) } else { Err(format!("{nodes:?}")) }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", bed.master.log()));
    for count in 0..4 {
        let name = format!("apart-{count}");
        if bed.node_of(&name).await.is_empty() {
            bed.waits(&name, "Unschedulable", &words(3, "3 node(s) didn't match pod anti-affinity rules", 3))
                .await;
        }
    }
}

#[tokio::test]
async fn a_rejected_binding_is_reported_and_retried() {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let bed = Bed::new().await;
    bed.node("a", "x", json!({})).await;
    // Otherwise the first event can be about a missing node.
    bed.until_known("a", "default-scheduler").await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/binding"]}]);
    let validations = json!([{"expression": "false", "message": "not before noon"}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": validations});
    let policy = json!({"metadata": {"name": "noon"}, "spec": spec});
    bed.make(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    let spec = json!({"policyName": "noon", "validationActions": ["Deny"]});
    let binding = json!({"metadata": {"name": "noon"}, "spec": spec});
    bed.make(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
    bed.pod("p", "1", json!({})).await;
    let words = bed.event("p", "FailedScheduling").await;
    assert!(words.contains("not before noon"), "{words}");
    bed.waits("p", "SchedulerError", &words).await;
    bed.delete(&format!("{GROUP}/validatingadmissionpolicybindings/noon")).await;
    assert_eq!(bed.bound("p").await, "a");
}

#[tokio::test]
async fn scheduler_skips_gated_pods_and_pods_of_other_schedulers() {
    let bed = Bed::new().await;
    bed.node("a", "x", json!({})).await;
    bed.pod("gated", "1", json!({"schedulingGates": [{"name": "example.com/g"}]})).await;
    bed.pod("mine", "1", json!({"schedulerName": "mine"})).await;
    let gated =
        "Scheduling is blocked due to non-empty scheduling gates, of which example.com/g is the first";
    bed.waits("gated", "SchedulingGated", gated).await;
    bed.pod("free", "1", json!({})).await;
    assert_eq!(bed.bound("free").await, "a");
    assert_eq!(bed.node_of("gated").await, "");
    bed.patch(&format!("{PODS}/gated"), &json!({"spec": {"schedulingGates": null}})).await;
    assert_eq!(bed.bound("gated").await, "a");
    assert_eq!(bed.node_of("mine").await, "");
}

#[tokio::test]
async fn scheduler_orders_pods_by_priority_and_a_standby_takes_over() {
    let mut master = Master::new().with_flags(["--node-monitor-grace-period=1h"]);
    master.start().await;
    let bed = Bed::of(master).await;
    bed.node("a", "x", json!({})).await;
    bed.node("b", "x", json!({})).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    bed.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let on_b = json!({"nodeSelector": {"kubernetes.io/hostname": "b"}});
    bed.pod("low", "4", on_b.clone()).await;
    let mut high = on_b;
    high["priorityClassName"] = "high".into();
    bed.pod("high", "4", high).await;
    let mut first = bed.scheduler("first").await;
    assert_eq!(bed.bound("high").await, "b");
    let why = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector";
    bed.waits("low", "Unschedulable", &words(2, why, 1)).await;
    bed.delete(&format!("{PODS}/low")).await;
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let holder = async || bed.get(LEASE).await["spec"]["holderIdentity"].as_str().unwrap().to_owned();
    let before = holder().await;
    let _second = bed.scheduler("second").await;
    for count in 0..20 {
        bed.pod(&format!("p{count}"), "100m", json!({})).await;
    }
    for count in 0..20 {
        assert_eq!(bed.bound(&format!("p{count}")).await, "a");
    }
    assert_eq!(holder().await, before);
    first.signal(rustix::process::Signal::TERM);
    let look = async || first.ended().ok_or_else(|| "it still runs".to_owned());
    assert!(wait_until(DEADLINE, look).await.unwrap().success());
    bed.pod("after", "100m", json!({})).await;
    assert_eq!(bed.bound("after").await, "a");
    assert_ne!(holder().await, before);
    let events = bed.get("/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled").await;
    let twice = events["items"].as_array().unwrap().iter().find(|event| event["count"] != 1);
    assert!(twice.is_none(), "bound twice: {twice:?}");
}

#[tokio::test]
async fn a_pod_with_higher_priority_preempts_others_and_kubectl_shows_it() {
    let bed = Bed::new().await;
    bed.node("a", "x", json!({})).await;
    bed.node("b", "x", json!({})).await;
    for (name, value) in [("high", 1000), ("mid", 500)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        bed.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    }
    let on = |node: &str, class: Option<&str>| json!({"nodeSelector": {"kubernetes.io/hostname": node}, "priorityClassName": class});
    bed.pod("low", "3", on("a", None)).await;
    bed.pod("spared", "500m", on("a", None)).await;
    bed.pod("mid", "3", on("b", Some("mid"))).await;
    for (name, node) in [("low", "a"), ("spared", "a"), ("mid", "b")] {
        assert_eq!(bed.bound(name).await, node);
    }
    let class = json!({"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"});
    bed.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    bed.pod("polite", "3", json!({"priorityClassName": "polite"})).await;
    let why = "0/2 nodes are available: 2 Insufficient cpu.";
    let never = format!("{why} preemption: not eligible due to preemptionPolicy=Never.");
    bed.waits("polite", "Unschedulable", &never).await;
    bed.delete(&format!("{PODS}/polite")).await;
    bed.pod("high", "3", json!({"priorityClassName": "high"})).await;
    let high = bed.get(&format!("{PODS}/high")).await["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(bed.event("low", "Preempted").await, format!("Preempted by pod {high} on node a"));
    let low = bed.get(&format!("{PODS}/low")).await;
    assert!(low["metadata"]["deletionTimestamp"].is_string(), "{low}");
    let conditions = low["status"]["conditions"].as_array().unwrap();
    let disruption_condition = conditions.iter().find(|of| of["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disruption_condition["reason"], "PreemptionByScheduler");
    assert_eq!(
        disruption_condition["message"],
        "default-scheduler: preempting to accommodate a higher priority pod"
    );
    let kubectl = async |arguments: &[&str]| {
        let admin = bed.master.data_dir().join("admin.kubeconfig");
        bed.master.kubectl(&admin, arguments).await.stdout
    };
    let jsonpath = ["get", "pod", "high", "-o", "jsonpath={.status.nominatedNodeName}"];
    let look = async || match kubectl(&jsonpath).await {
        node if node == "a" => Ok(()),
        other => Err(other),
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", bed.master.log()));
    // Resources reserved for a nominated pod are not given to later pods of the same or lower priority.
    bed.pod("later", "1", on("a", None)).await;
    let why =
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.";
    let words =
        kubectl(&["wait", "pod", "later", "--for=condition=PodScheduled=false", "--timeout=60s"]).await;
    assert!(words.contains("condition met"), "{words}");
    // It shows the message of the event, which the scheduler writes in the background.
    let described = async || match kubectl(&["describe", "pod", "later"]).await {
        text if text.contains(why) => Ok(()),
        text => Err(text),
    };
    wait_until(DEADLINE, described).await.unwrap_or_else(|seen| panic!("{why} is not in {seen}"));
    bed.delete(&format!("{PODS}/low")).await;
    assert_eq!(bed.bound("high").await, "a");
    assert_eq!((bed.node_of("spared").await.as_str(), bed.node_of("mid").await.as_str()), ("a", "b"));
    assert!(bed.get(&format!("{PODS}/spared")).await["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn pods_are_scheduled_to_the_nodes_of_their_volumes() {
    let bed = Bed::new().await;
    bed.node("a", "x", json!({})).await;
    bed.node("b", "y", json!({})).await;
    let volume = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    bed.pod("uses", "1", volume.clone()).await;
    let unschedulable = |why: &str| words(2, why, 0);
    bed.waits("uses", "Unschedulable", &unschedulable("persistentvolumeclaim \"data\" not found")).await;
    let mut claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "disk", "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    bed.make(CLAIMS, &claim).await;
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    bed.waits("uses", "Unschedulable", &unschedulable(unbound)).await;
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["y"]});
    bed.make(
        "/api/v1/persistentvolumes",
        &json!({
            "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/disk"},
                "storageClassName": "",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}},
        }),
    )
    .await;
    claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
    bed.patch(&format!("{CLAIMS}/data"), &claim).await;
    assert_eq!(bed.bound("uses").await, "b");
    bed.pod("second", "1", volume).await;
    let taken =
        "2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    bed.waits("second", "Unschedulable", &words(2, taken, 2)).await;
    bed.delete(&format!("{PODS}/uses")).await;
    assert_eq!(bed.bound("second").await, "b");
}

#[tokio::test]
async fn config_file_sets_scheduler_profiles_and_scoring() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.yaml");
    let profiles = "profiles:\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: \
                    {scoringStrategy: {type: MostAllocated}}\n";
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    std::fs::write(&file, format!("{head}{profiles}")).unwrap();
    let config = format!("--scheduler-config={}", file.display());
    let mut master =
        Master::new().with_flags(["--scheduler=true", "--node-monitor-grace-period=1h", config.as_str()]);
    master.start().await;
    let bed = Bed::of(master).await;
    bed.node("a", "x", json!({})).await;
    bed.node("b", "x", json!({})).await;
    let mut there = json!({"metadata": {"name": "there"}, "spec": {"nodeName": "b"}});
    let requests = json!({"cpu": "1", "memory": "2Gi"});
    there["spec"]["containers"] = json!([{"name": "c", "image": "i", "resources": {"requests": requests}}]);
    bed.make(PODS, &there).await;
    bed.until_known("b", "packing").await;
    // No scheduler has that name here.
    bed.pod("others", "1", json!({})).await;
    for count in 0..3 {
        let name = format!("packed-{count}");
        bed.pod(&name, "500m", json!({"schedulerName": "packing"})).await;
        assert_eq!(bed.bound(&name).await, "b");
    }
    assert_eq!(bed.event("packed-0", "Scheduled").await, "Successfully assigned default/packed-0 to b");
    let events = bed.get("/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled").await;
    assert!(
        events["items"].as_array().unwrap().iter().all(|event| event["source"]["component"] == "packing")
    );
    assert_eq!(bed.node_of("others").await, "");
    // The scheduler does not start with an unknown field in its configuration.
    std::fs::write(&file, format!("{head}parallelism: 8\n")).unwrap();
    let kubeconfig = bed.master.user("system:kube-scheduler", &[]).await;
    let mut command = Command::new(binary("master"));
    command.args(["scheduler", "--kubeconfig"]).arg(kubeconfig).arg("--config").arg(&file);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("parallelism is not supported"), "{printed}");
}
