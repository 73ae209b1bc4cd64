//! NetworkPolicies on two nodes of one master.

use std::fs;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{DEADLINE, IMAGE, Machine, wait_until};

use crate::pod_network_nodes::asking::{Client, socket};
use crate::pod_network_nodes::cluster::Cluster;

/// A pod that answers on the ports 80 (`http`) and 8085 (`more`).
fn pod(namespace: &str, name: &str, app: &str, machine: &Machine) -> Value {
    let script = "mkdir -p /tmp/www/cgi-bin; cd /tmp/www/cgi-bin\n\
        printf '%s\\n' '#!/bin/sh' 'echo Content-Type: text/plain' 'echo' 'echo $(hostname) sees $REMOTE_ADDR' >who\n\
        chmod +x who; trap 'exit 0' TERM; httpd -f -p 8085 -h /tmp/www & httpd -f -p 80 -h /tmp/www & wait";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": machine.node.pod_name(name), "labels": {"app": app}},
        "spec": {"nodeName": machine.node.node, "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": IMAGE, "command": ["sh", "-c", script],
            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 8085, "name": "more"}],
            "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
        }]},
    })
}

/// The policy `one` in the namespace `default`.
fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "one"}, "spec": spec})
}

/// The address of a pod, once it is Ready.
async fn address(cluster: &Cluster<2>, namespace: &str, name: &str) -> String {
    let look = async || {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let (_, text) = cluster.master.get_as_admin(&path).await;
        let pod: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|one| one["type"] == "Ready" && one["status"] == "True");
        match (ready.next(), pod["status"]["podIP"].as_str()) {
            (Some(_), Some(ip)) => Ok(ip.to_owned()),
            _ => Err(pod["status"].to_string()),
        }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{name} is not Ready: {seen}"))
}

/// Waits until each client reaches the address, or fails, as expected. Then checks all clients twice at the same time:
/// a client may have had the expected result before the policy applied.
async fn check(what: &str, at: &str, clients: &[(Client<'_>, bool)], machines: &[&Machine]) {
    let look = async || unexpected(at, clients).await;
    if let Err(seen) = wait_until(DEADLINE, look).await {
        let states = machines.iter().map(|machine| {
            format!("{}\n{}", machine.run("nft list ruleset | grep -A60 policy"), machine.node.log_tail())
        });
        let states: String = states.collect();
        panic!("{what}: {seen}\n{states}");
    }
    for round in 0..2 {
        if let Err(seen) = unexpected(at, clients).await {
            panic!("{what}, round {round}: {seen}");
        }
    }
}

/// Sends the requests of all clients at the same time.
///
/// # Errors
/// The clients with an unexpected result.
async fn unexpected(at: &str, clients: &[(Client<'_>, bool)]) -> Result<(), String> {
    let requests = clients.iter().map(|(client, _)| client.send_request(at));
    let answers = join_all(requests).await;
    let wrong = answers
        .iter()
        .zip(clients)
        .enumerate()
        .filter(|(_, (answer, (_, expected)))| answer.is_ok() != *expected);
    let wrong: Vec<String> = wrong
        .map(|(number, (answer, (_, expected)))| {
            format!("client {number} to {at} should be {expected}: {answer:?}")
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[tokio::test]
async fn policies_apply_on_a_node_and_across_nodes() {
    let mut cluster: Cluster<2> = Cluster::of([1, 1]).await;
    let [a, b] = &cluster.machines;
    let machines = [a, b];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"team": "x"}}});
    let objects = [
        namespace,
        pod("default", "srv", "srv", a),
        pod("default", "ok", "ok", a),
        pod("default", "no", "no", a),
        pod("default", "okb", "ok", b),
        pod("default", "nob", "no", b),
        pod("team", "teamok", "ok", b),
    ];
    cluster.kubectl_with("apply", &objects[..1]).await;
    cluster.kubectl_with("apply", &objects[1..]).await;
    let srv = address(&cluster, "default", &a.node.pod_name("srv")).await;
    let okb = address(&cluster, "default", &b.node.pod_name("okb")).await;
    for (namespace, name) in [
        ("default", a.node.pod_name("ok")),
        ("default", a.node.pod_name("no")),
        ("default", b.node.pod_name("nob")),
        ("team", b.node.pod_name("teamok")),
    ] {
        address(&cluster, namespace, &name).await;
    }
    let (http, more) = (socket(&srv, 80), socket(&srv, 8085));
    let (ok, no) = (Client::Pod(a, "ok"), Client::Pod(a, "no"));
    let (ok_b, no_b, team) = (Client::Pod(b, "okb"), Client::Pod(b, "nob"), Client::Pod(b, "teamok"));
    let all = |expected: [bool; 6]| {
        let clients = [ok, no, ok_b, no_b, team, Client::Machine(a)];
        clients.into_iter().zip(expected).collect::<Vec<_>>()
    };
    check("no policy", &http, &all([true; 6]), &machines).await;
    let select = json!({"matchLabels": {"app": "srv"}});
    let app_ok = json!({"podSelector": {"matchLabels": {"app": "ok"}}});
    let team_x = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    let both = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}, "podSelector": {"matchLabels": {"app": "no"}}});
    let range = json!({"ports": [{"port": 8080, "endPort": 8090}]});
    let (t, f) = (true, false);
    for (what, ingress, http_expected, more_expected) in [
        ("default deny", json!([]), [f, f, f, f, f, t], None),
        ("pods", json!([{"from": [app_ok]}]), [t, f, t, f, f, t], None),
        ("namespaces", json!([{"from": [team_x]}]), [f, f, f, f, t, t], None),
        ("both selectors", json!([{"from": [both]}]), [f, f, f, f, f, t], None),
        (
            "block",
            json!([{"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [format!("{okb}/32")]}}]}]),
            [t, t, f, t, t, t],
            None,
        ),
        ("named port", json!([{"ports": [{"port": "http"}]}]), [t, t, t, t, t, t], Some([f, f, f, f, f, t])),
        ("port range", json!([range]), [f, f, f, f, f, t], Some([t, t, t, t, t, t])),
    ] {
        cluster.kubectl_with("apply", &[policy(&json!({"podSelector": select, "ingress": ingress}))]).await;
        check(what, &http, &all(http_expected), &machines).await;
        if let Some(expected) = more_expected {
            check(what, &more, &all(expected), &machines).await;
        }
    }
    // The probe of the kubelet goes on reaching the isolated pod.
    address(&cluster, "default", &a.node.pod_name("srv")).await;
    // Egress: the destination may be on either node. Through a Service, the rules see the endpoint.
    let from_no = json!({"matchLabels": {"app": "no"}});
    let egress =
        |egress: Value| policy(&json!({"podSelector": from_no, "policyTypes": ["Egress"], "egress": egress}));
    cluster.kubectl_with("apply", &[egress(json!([]))]).await;
    for to in [&http, &socket(&okb, 80)] {
        check("deny egress", to, &[(no, f), (no_b, f), (ok, t), (ok_b, t)], &machines).await;
    }
    cluster.kubectl_with("apply", &[egress(json!([{"to": [app_ok], "ports": [{"port": "http"}]}]))]).await;
    check("egress to pods", &socket(&okb, 80), &[(no, t), (no_b, t)], &machines).await;
    check("egress to pods", &socket(&okb, 8085), &[(no, f), (no_b, f), (ok, t)], &machines).await;
    check("egress to pods", &http, &[(no, f), (no_b, f)], &machines).await;
    // The DNS server of the node stays reachable.
    let container = a.node.container("no", "main").await.unwrap();
    let words = ["nslookup", "kubernetes.default.svc.cluster.local"];
    let (answer, code) = a.node.engine.exec(&container.id, &words).await;
    assert_eq!(code, 0, "{answer}");
    // Removed rules are restored.
    cluster
        .kubectl_with("apply", &[policy(&json!({"podSelector": select, "ingress": [{"from": [app_ok]}]}))])
        .await;
    check("before the removal", &http, &[(ok_b, t), (no_b, f)], &machines).await;
    a.run("for family in inet bridge; do nft delete table $family $(nft list tables $family | grep -o 'coracle-policy-.*'); done");
    check("after the removal", &http, &[(no_b, f), (no, f), (ok, t)], &machines).await;
    // A kubelet that starts without a master enforces the stored policies, also if the rules are gone.
    let stored = a.node.root_dir().join("cluster/policies.json");
    let is_stored = async || {
        let text = fs::read_to_string(&stored).map_err(|error| error.to_string())?;
        if text.contains("\"srv\"") && text.contains(&okb) { Ok(()) } else { Err(text) }
    };
    wait_until(DEADLINE, is_stored).await.unwrap();
    cluster.master.kill();
    let node = &mut cluster.machines[0].node;
    node.stop().await;
    node.start().await;
    let [a, b] = &cluster.machines;
    a.run("for family in inet bridge; do nft delete table $family $(nft list tables $family | grep -o 'coracle-policy-.*'); done");
    let clients = [(Client::Pod(b, "nob"), f), (Client::Pod(a, "no"), f), (Client::Pod(b, "okb"), t)];
    check("without a master", &http, &clients, &[a, b]).await;
}
