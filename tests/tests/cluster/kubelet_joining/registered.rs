//! A node that has joined registers its Node object with addresses, conditions and pod CIDR, and receives the other members.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tests::manifest::sleeper;
use tests::{DEADLINE, Master, PrivateEngine, World, wait_until};

use crate::kubelet_joining::machine::{admin, line, master, started, wait_for_log};

const APPROVE: &str = "--csr-approval-policy=insecure-always-approve";

/// The Node object at the master.
async fn node_of(master: &Master, name: &str) -> Result<Value, String> {
    let (code, text) = master.get_as_admin(&format!("/api/v1/nodes/{name}")).await;
    if code != 200 {
        return Err(format!("{code} {text}"));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn condition<'a>(node: &'a Value, kind: &str) -> &'a Value {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Waits until the master has the Node and its Ready condition has this status.
async fn is_ready(world: &World, master: &Master, status: &str) -> Value {
    let look = async || {
        let node = node_of(master, &world.node).await?;
        if condition(&node, "Ready")["status"] == status { Ok(node) } else { Err(node.to_string()) }
    };
    world.wait_for(&format!("Ready to be {status} at the master"), look).await
}

/// Creates a Node as the administrator.
async fn makes(master: &Master, name: &str, range: &str) {
    let spec = if range.is_empty() { json!({}) } else { json!({"podCIDR": range}) };
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec});
    let url = format!("https://127.0.0.1:{}/api/v1/nodes", master.port);
    let made = master.client().post(url).json(&object).send().await.unwrap();
    assert_eq!(made.status().as_u16(), 201);
}

/// Waits until the node knows a member of this name, and returns its whole member list.
async fn knows(world: &World, name: &str) -> Value {
    knows_with(world, name, |_| true).await
}

/// The same, once the member list satisfies the condition.
async fn knows_with(world: &World, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let path = world.root_dir().join("cluster/members.json");
    let look = async || {
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let members: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if other(&members, name).is_null() || !holds(&members) { Err(text) } else { Ok(members) }
    };
    world.wait_for(&format!("{name} to be known"), look).await
}

fn other<'a>(members: &'a Value, name: &str) -> &'a Value {
    let all = members["others"].as_array().into_iter().flatten();
    all.into_iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn two_nodes_register_with_distinct_pod_cidrs_and_find_each_other() {
    let master = master(&[APPROVE]).await;
    let line = line(&master).await;
    let flags = ["--bootstrap", &line, "--node-labels", "tier=x"];
    let nodes = [started("first", &flags).await, started("second", &flags).await];
    let mut ranges = BTreeSet::new();
    for node in &nodes {
        let there = is_ready(node, &master, "True").await;
        let range = there["spec"]["podCIDR"].as_str().unwrap().to_owned();
        assert_eq!(there["spec"]["podCIDRs"], json!([range]));
        assert!(range.starts_with("10.244.") && range.ends_with(".0/24"), "{range}");
        ranges.insert(range);
        assert_eq!(there["metadata"]["labels"]["tier"], "x");
        assert_eq!(there["metadata"]["labels"]["kubernetes.io/hostname"], node.node.as_str());
        let status = &there["status"];
        assert_eq!(status["addresses"][0], json!({"type": "InternalIP", "address": "127.0.0.1"}));
        assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"], node.api_port.number);
        assert!(
            status["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("docker://"),
            "{status}"
        );
        assert_eq!(condition(&there, "NetworkUnavailable")["status"], "False");
    }
    assert_eq!(ranges.len(), 2);
    let shown = admin(&master, &["get", "nodes"]).await;
    for node in &nodes {
        let line = shown.lines().find(|line| line.starts_with(&node.node)).unwrap_or_default();
        assert_eq!(line.split_whitespace().nth(1), Some("Ready"), "{shown}");
    }
    let [first, second] = &nodes;
    let is_complete = |members: &Value| {
        let known = other(members, &second.node);
        known["addresses"][0].is_string() && known["ranges"][0].is_string() && members["own"][0].is_string()
    };
    let members = knows_with(first, &second.node, is_complete).await;
    let known = other(&members, &second.node);
    assert_eq!(known["addresses"], json!(["127.0.0.1"]));
    assert!(
        ranges.contains(known["ranges"][0].as_str().unwrap()) && known["ranges"] != members["own"],
        "{members}"
    );

    // Deleting the Node object does not remove the node: it registers again, and its pods keep their pod CIDR.
    admin(&master, &["delete", "node", &first.node]).await;
    let again = is_ready(first, &master, "True").await;
    assert_eq!(again["spec"]["podCIDRs"], members["own"]);
}

#[tokio::test]
async fn node_requests_its_pod_cidr_and_gets_another_if_it_is_taken() {
    let master = master(&[APPROVE, "--cluster-cidr", "10.213.0.0/16"]).await;
    makes(&master, "taken", "10.213.7.0/24").await;
    let line = line(&master).await;
    for (name, claim, expected) in
        [("free", "10.213.5.0/24", "10.213.5.0/24"), ("late", "10.213.7.0/24", "10.213.8.0/24")]
    {
        let node = started(name, &["--bootstrap", &line, "--pod-cidr", claim]).await;
        let there = node.wait_for("its Node", async || node_of(&master, &node.node).await).await;
        assert_eq!(there["spec"]["podCIDR"], expected, "{claim}");
    }
}

#[tokio::test]
async fn pods_wait_while_the_pod_cidr_flag_conflicts_with_the_cluster() {
    let master = master(&[APPROVE, "--cluster-cidr", "10.212.0.0/16"]).await;
    makes(&master, "taken", "10.212.17.0/24").await;
    let line = line(&master).await;
    let own = ["--bootstrap", line.as_str(), "--pod-network", "native"];
    for (name, claim) in [("outside", "10.214.5.0/24"), ("taken", "10.212.17.0/24")] {
        let mut node = started(name, &[&own[..], &["--pod-cidr", claim]].concat()).await;
        let there = is_ready(&node, &master, "False").await;
        let given = there["spec"]["podCIDR"].as_str().unwrap();
        assert!(given.starts_with("10.212.") && given != claim, "{given}");
        node.write("a.yaml", &sleeper("a"));
        node.write("host.yaml", &sleeper("host").replace("containers:", "hostNetwork: true\n  containers:"));
        // An earlier event may give another cause.
        let event_message = node.wait_for_event("a", "start the kubelet without --pod-cidr").await;
        for part in [claim, given, "FailedCreatePodSandBox"] {
            assert!(event_message.contains(part), "{part}: {event_message}");
        }
        node.wait_ready("host").await;
        assert_eq!(node.pod("a").await.unwrap().ip(), "", "it has an address of no pod CIDR");
        let range = if name == "outside" {
            node.stop().await;
            node.set_flags([&own[..], &["--node-ip", "127.0.0.1"]].concat());
            node.start().await;
            given
        } else {
            admin(&master, &["delete", "node", "taken", &node.node]).await;
            claim
        };
        let there = is_ready(&node, &master, "True").await;
        assert_eq!(there["spec"]["podCIDR"], range);
        let pod = node.wait_ready("a").await;
        assert!(pod.ip().starts_with(range.trim_end_matches("0/24")), "{}", pod.ip());
    }
}

#[tokio::test]
async fn empty_restored_master_removes_no_peer() {
    // The pod CIDR that the node would choose itself lies outside of the cluster CIDR.
    let mut master = master(&[APPROVE, "--cluster-cidr", "10.211.0.0/16"]).await;
    let line = line(&master).await;
    let node = started("stays", &["--bootstrap", &line]).await;
    makes(&master, "away", "10.211.99.0/24").await;
    let before = is_ready(&node, &master, "True").await;
    knows(&node, "away").await;
    master.kill();
    fs::remove_dir_all(master.data_dir().join("store")).unwrap();
    fs::remove_file(master.data_dir().join("store.created")).unwrap();
    master.start().await;
    let after = is_ready(&node, &master, "True").await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"]["podCIDRs"], before["spec"]["podCIDRs"]);
    // New members are added to the known ones.
    makes(&master, "new", "").await;
    let members = knows(&node, "new").await;
    assert_eq!(other(&members, "away")["ranges"], json!(["10.211.99.0/24"]), "{members}");
}

#[tokio::test]
async fn the_node_status_shows_an_engine_failure_and_its_recovery() {
    let master = master(&[APPROVE]).await;
    let mut engine = PrivateEngine::running(false).await;
    let line = line(&master).await;
    // An engine in its own network namespace: only the engine can provide the pods' network.
    let flags = ["--node-ip", "127.0.0.1", "--bootstrap", &line];
    let mut node = World::on(engine.engine(), "engine").with_flags(flags);
    node.launch();
    let has_reason = async || {
        let there = node_of(&master, &node.node).await?;
        let message = condition(&there, "Ready")["message"].as_str().unwrap_or_default().to_owned();
        let is_reported = message.contains("network namespace") && message.contains("--pod-network docker");
        if is_reported { Ok(()) } else { Err(there.to_string()) }
    };
    node.wait_for("the node to say why it is not Ready", has_reason).await;
    node.kill();
    node.set_flags([&flags[..], &["--pod-network", "docker"]].concat());
    node.launch();
    is_ready(&node, &master, "True").await;
    engine.kill();
    let there = is_ready(&node, &master, "False").await;
    assert_eq!(condition(&there, "Ready")["reason"], "ContainerEngineUnreachable");
    engine.start().await;
    is_ready(&node, &master, "True").await;
}

#[tokio::test]
async fn forbidden_registration_is_reported_and_retried() {
    let flags = [APPROVE, "--node-admission=allowlist", "--node-allowlist=10.0.0.0/8"];
    let mut refusing = master(&flags).await;
    let node = started("unlisted", &["--bootstrap", &line(&refusing).await]).await;
    let event_message = wait_for_log(&node, "cannot register node").await;
    assert!(
        event_message.contains("in none of the networks from which nodes may register")
            && event_message.contains("docs/joining.md"),
        "{event_message}"
    );
    refusing.kill();
    let listed =
        ["--advertise-address=127.0.0.1", "--node-admission=allowlist", "--node-allowlist=127.0.0.0/8"];
    refusing = refusing.with_flags(listed);
    refusing.start().await;
    is_ready(&node, &refusing, "True").await;
}

#[tokio::test]
async fn node_replaces_its_reserved_node_object_and_gets_labels_and_a_pod_cidr() {
    let master = master(&[
        "--csr-approval-policy=allowlist",
        "--csr-approval-allowlist=127.0.0.0/8",
        "--node-admission=certificate",
    ])
    .await;
    let node = started("kept", &["--bootstrap", &line(&master).await, "--node-labels", "tier=x"]).await;
    let there = is_ready(&node, &master, "True").await;
    assert_eq!(there["metadata"]["labels"]["tier"], "x");
    assert!(
        there["spec"]["podCIDR"].is_string()
            && there["metadata"]["annotations"]["coracle.io/reserved"].is_null(),
        "{there}"
    );
}

#[tokio::test]
async fn kubelet_knows_its_peers_without_a_master() {
    let mut master = master(&[APPROVE]).await;
    let mut node = started("reboots", &["--bootstrap", &line(&master).await]).await;
    is_ready(&node, &master, "True").await;
    makes(&master, "other", "10.244.99.0/24").await;
    knows(&node, "other").await;
    node.kill();
    master.kill();
    let before = knows(&node, "other").await;
    node.launch();
    wait_for_log(&node, "does not answer").await;
    assert_eq!(knows(&node, "other").await, before);
    // The node receives updates again.
    master.start().await;
    makes(&master, "late", "").await;
    let look = async || {
        let members = knows(&node, "late").await;
        if other(&members, "other").is_null() { Err(members.to_string()) } else { Ok(()) }
    };
    wait_until(DEADLINE, look).await.unwrap();
}
