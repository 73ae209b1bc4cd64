//! Node registration and trust in each mode, and after a change of the mode.

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{DEADLINE, Master, wait_until};

use crate::master_joining::machine::{CLIENT, Machine, Shows, admin};

const NODES: &str = "/api/v1/nodes";

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

async fn start(mut master: Master, flags: &[&str]) -> Master {
    master = master.with_flags(flags.iter().copied());
    master.start().await;
    master
}

/// Trust state in the Node object: status and reason of the condition, and whether the node has the taint.
async fn trust(master: &Master, name: &str) -> (String, String, bool) {
    let (_, text) = master.get_as_admin(&format!("{NODES}/{name}")).await;
    let node: Value = serde_json::from_str(&text).unwrap();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "Trusted").unwrap_or_default();
    let annotation = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    (
        annotation("status"),
        annotation("reason"),
        taints.iter().any(|taint| taint["key"] == "coracle.io/untrusted"),
    )
}

async fn becomes(master: &Master, name: &str, expected: (&str, &str, bool)) {
    let look = async || {
        let found = trust(master, name).await;
        if (found.0.as_str(), found.1.as_str(), found.2) == expected {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    };
    let response = wait_until(DEADLINE, look).await;
    response.unwrap_or_else(|seen| panic!("{name} is not {expected:?}: {seen}\n{}", master.log()));
}

#[tokio::test]
async fn after_a_change_to_certificate_mode_old_nodes_stay_and_new_ones_are_rejected() {
    let mut master = start(Master::new(), &["--csr-approval-policy=insecure-always-approve"]).await;
    let (old, stranger) = (Machine::new(), Machine::new());
    let certificate = old.joins(&master, "old", "kubelet:n1").await;
    let shows = Shows::Certificate(&certificate);
    let (code, made) = old.sends(&master, &shows, NODES, Some(&node("n1"))).await;
    assert_eq!(code, 201, "{made}");
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations["coracle.io/registered-from"], "127.0.0.1", "{made}");
    assert_eq!(annotations["coracle.io/public-keys"].as_str().unwrap().len(), 64, "{made}");
    becomes(&master, "n1", ("True", "Open", false)).await;
    let described = admin(&master, "describe node n1").await;
    assert!(
        described.contains("Trusted") && described.contains("every node with a certificate is trusted"),
        "{described}"
    );
    // All requests are approved: one machine gets a certificate of the same node, the other of a node that never
    // registered.
    let same = stranger.joins(&master, "same", "kubelet:n1").await;
    let never = stranger.joins(&master, "never", "kubelet:n2").await;

    assert!(master.stop(Signal::TERM).await.success());
    let master = start(master, &["--node-admission=certificate"]).await;
    becomes(&master, "n1", ("True", "KeyRegistered", false)).await;
    let (code, seen) = old.sends(&master, &shows, &format!("{NODES}/n1"), None).await;
    assert_eq!(code, 200, "{seen}");
    for (certificate, path, body) in [
        (&same, format!("{NODES}/n1"), None),
        (&never, format!("{NODES}/n2"), None),
        (&never, NODES.to_owned(), Some(node("n2"))),
        (&never, crate::master_joining::machine::REQUESTS.to_owned(), Some(json!({}))),
    ] {
        let (code, response) =
            stranger.sends(&master, &Shows::Certificate(certificate), &path, body.as_ref()).await;
        let why = response["message"].as_str().unwrap();
        assert!(
            code == 403 && why.contains("the key of this certificate is not registered for node"),
            "{response}"
        );
    }

    // The node renews with a new key. Both certificates are valid until the node uses the new one.
    let renewal = Machine::new();
    let request = renewal.request("kubelet:n1", "");
    let (code, made) = old.request_certificate(&master, &shows, ("renewal", CLIENT), &request).await;
    assert_eq!(code, 201, "{made}");
    let renewed = renewal.is_signed(&master, &Shows::Nothing, "renewal").await;
    for (machine, certificate) in [(&renewal, &renewed), (&old, &certificate)] {
        let shows = Shows::Certificate(certificate);
        assert_eq!(machine.sends(&master, &shows, &format!("{NODES}/n1"), None).await.0, 200);
    }
}

#[tokio::test]
async fn an_approved_key_registers_a_node_and_a_deletion_revokes_it() {
    let master = start(Master::new(), &["--node-admission=certificate"]).await;
    let machine = Machine::new();
    let request = machine.request("system:node:n1", "");
    machine.request_certificate(&master, &Shows::Nothing, ("n1", CLIENT), &request).await;
    admin(&master, "certificate approve n1").await;
    let certificate = machine.is_signed(&master, &Shows::Nothing, "n1").await;
    let shows = Shows::Certificate(&certificate);
    becomes(&master, "n1", ("True", "KeyRegistered", false)).await;
    assert!(admin(&master, "get nodes").await.contains("n1"));
    // Labels that an administrator sets before the machine joins take precedence.
    admin(&master, "label node n1 rack=r7 tier=front").await;
    let uid = admin(&master, "get node n1 -o jsonpath={.metadata.uid}").await;
    // A stock kubelet registers with all labels and taints of its flags.
    let mut own = node("n1");
    own["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n1", "tier": "back", "disk": "ssd"});
    own["spec"] = json!({"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]});
    own["status"] = json!({"nodeInfo": {"kubeletVersion": "v1.36.0"}, "capacity": {"cpu": "2"}});
    let stranger = Machine::new();
    assert_eq!(stranger.sends(&master, &Shows::Nothing, NODES, Some(&own)).await.0, 403);
    let by_admin = master.client().post(format!("https://127.0.0.1:{}{NODES}", master.port)).json(&own);
    assert_eq!(
        by_admin.send().await.unwrap().status().as_u16(),
        409,
        "the place is kept for the machine alone"
    );
    let (code, made) = machine.sends(&master, &shows, NODES, Some(&own)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["uid"].as_str(), Some(uid.as_str()), "{made}");
    let expected = json!({"kubernetes.io/hostname": "n1", "tier": "front", "disk": "ssd", "rack": "r7"});
    assert_eq!(made["metadata"]["labels"], expected);
    let mut taints = own["spec"]["taints"].clone();
    taints
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
    assert_eq!((&made["spec"]["taints"], &made["status"]["capacity"]["cpu"]), (&taints, &"2".into()));
    assert!(made["metadata"]["annotations"]["coracle.io/reserved"].is_null(), "{made}");
    // A restarted kubelet finds its Node and uses it.
    let (code, response) = machine.sends(&master, &shows, NODES, Some(&own)).await;
    assert_eq!((code, &response["reason"]), (409, &"AlreadyExists".into()));
    let (code, found) = machine.sends(&master, &shows, &format!("{NODES}/n1"), None).await;
    assert_eq!((code, &found["spec"]["taints"]), (200, &taints));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let (code, response) =
        machine.patches(&master, &certificate, &format!("{NODES}/n1/status"), &ready).await;
    assert_eq!(code, 200, "{response}");
    assert_eq!(
        trust(&master, "n1").await,
        ("True".into(), "KeyRegistered".into(), false),
        "it wrote over the list"
    );
    admin(&master, "delete node n1").await;
    let (code, response) = machine.sends(&master, &shows, &format!("{NODES}/n1"), None).await;
    assert_eq!(code, 403, "{response}");
    // A manually created Node has no key and gets no pods.
    let file = master.data_dir().join("by-hand.json");
    std::fs::write(&file, node("by-hand").to_string()).unwrap();
    admin(&master, &format!("create -f {}", file.display())).await;
    becomes(&master, "by-hand", ("False", "NoKey", true)).await;
}

#[tokio::test]
async fn node_outside_the_allowlist_gets_no_pods() {
    let open = ["--csr-approval-policy=insecure-always-approve"];
    let mut master = start(Master::new(), &open).await;
    let machine = Machine::new();
    let certificate = machine.joins(&master, "n1", "kubelet:n1").await;
    let shows = Shows::Certificate(&certificate);
    assert_eq!(machine.sends(&master, &shows, NODES, Some(&node("n1"))).await.0, 201);
    let late = Machine::new();
    let of_late = late.joins(&master, "n2", "kubelet:n2").await;
    assert!(master.stop(Signal::TERM).await.success());
    let master = start(master, &[open[0], "--node-admission=allowlist", "--node-allowlist=10.0.0.0/8"]).await;
    becomes(&master, "n1", ("False", "NotListed", true)).await;
    let (code, response) = late.sends(&master, &Shows::Certificate(&of_late), NODES, Some(&node("n2"))).await;
    assert!(code == 403 && response["message"].as_str().unwrap().contains("--node-allowlist"), "{response}");

    // Requests of the node itself cannot change its trust.
    for (path, patch, expected) in [
        ("n1", json!({"spec": {"taints": []}}), "is not allowed to modify taints"),
        (
            "n1",
            json!({"metadata": {"annotations": {"coracle.io/trusted": "true"}}}),
            "annotations that begin with coracle.io/",
        ),
        (
            "n1/status",
            json!({"metadata": {"annotations": {"coracle.io/registered-from": "10.0.0.1"}}}),
            "annotations",
        ),
    ] {
        let (code, response) =
            machine.patches(&master, &certificate, &format!("{NODES}/{path}"), &patch).await;
        assert!(code == 403 && response["message"].as_str().unwrap().contains(expected), "{response}");
    }
    let lie = json!({"status": {"conditions": [{"type": "Trusted", "status": "True"}]}});
    assert_eq!(machine.patches(&master, &certificate, &format!("{NODES}/n1/status"), &lie).await.0, 200);
    assert_eq!(trust(&master, "n1").await, ("False".into(), "NotListed".into(), true));

    let kubeconfig = master.data_dir().join("admin.kubeconfig");
    let run = async |name: &str, overrides: &str| {
        let overrides = format!("--overrides={overrides}");
        master.kubectl(&kubeconfig, &["run", name, "--image=i", &overrides]).await
    };
    let plain = run("plain", r#"{"spec":{"nodeName":"n1"}}"#).await;
    assert!(plain.code != 0 && plain.stderr.contains("is not trusted to run pods"), "{plain:?}");
    let tolerant =
        r#"{"spec":{"nodeName":"n1","tolerations":[{"key":"coracle.io/untrusted","operator":"Exists"}]}}"#;
    assert_eq!(run("tolerant", tolerant).await.code, 0);
    assert_eq!(run("waiting", "{}").await.code, 0);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "waiting"}, "target": {"name": "n1"}});
    let url = format!("https://127.0.0.1:{}/api/v1/namespaces/default/pods/waiting/binding", master.port);
    let bind = async || master.client().post(&url).json(&binding).send().await.unwrap().status().as_u16();
    assert_eq!(bind().await, 403);

    let checked = master.verb(&["check"]).await;
    assert!(checked.stdout.contains("n1") && checked.stdout.contains("not trusted"), "{checked:?}");
    admin(&master, "annotate node n1 coracle.io/trusted=true").await;
    becomes(&master, "n1", ("True", "Declared", false)).await;
    assert_eq!(bind().await, 201);
    admin(&master, "annotate node n1 --overwrite coracle.io/trusted=false").await;
    becomes(&master, "n1", ("False", "Declared", true)).await;
}
