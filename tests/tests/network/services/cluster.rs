//! Services on two nodes of one master: pods, the nodes and an external host reach them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tests::{DEADLINE, IMAGE, Pod, network, wait_until};

use crate::pod_network_nodes::asking::{Client, socket};
use crate::pod_network_nodes::cluster::{Cluster, WEB, web};

/// A pod on a node that answers on port 80 with its name and the address of the client.
fn pod(name: &str, node: &str) -> Value {
    let script = "mkdir -p /tmp/www/cgi-bin; cd /tmp/www/cgi-bin\n\
        printf '%s\\n' '#!/bin/sh' 'echo Content-Type: text/plain' 'echo' 'echo $(hostname) sees $REMOTE_ADDR' >who\n\
        chmod +x who; trap 'exit 0' TERM; httpd -f -p 80 -h /tmp/www & wait";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "shop"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": IMAGE, "command": ["sh", "-c", script],
            "ports": [{"containerPort": 80, "name": "http"}],
        }]},
    })
}

/// A Service on port 8000 for the pods, with more fields of its spec.
fn service(name: &str, app: &str, more: &Value) -> Value {
    let port = json!({"name": "web", "port": 8000, "targetPort": "http"});
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [port]}});
    for (field, value) in more.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

async fn get(cluster: &Cluster<2>, path: &str) -> Value {
    let (code, text) = cluster.master.get_as_admin(path).await;
    assert_eq!(code, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The cluster IP and port of a Service.
async fn address(cluster: &Cluster<2>, name: &str) -> String {
    let service = get(cluster, &format!("/api/v1/namespaces/default/services/{name}")).await;
    socket(service["spec"]["clusterIP"].as_str().unwrap(), 8000)
}

/// Waits until exactly these servers answer a client within some requests.
async fn answered_by(client: Client<'_>, to: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    let look = async || {
        let mut servers = BTreeSet::new();
        for _ in 0..16 {
            servers.insert(client.send_request(to).await?.split(' ').next().unwrap_or_default().to_owned());
        }
        if servers == expected { Ok(()) } else { Err(format!("{servers:?} in place of {expected:?}")) }
    };
    if let Err(seen) = wait_until(DEADLINE, look).await {
        let state = match client {
            Client::Pod(machine, _) | Client::Machine(machine) => format!(
                "{}{}",
                machine.run("ip route; nft list ruleset 2>/dev/null"),
                machine.node.log_tail()
            ),
            Client::Desk => String::new(),
        };
        panic!("{to}: {seen}\n{state}");
    }
}

/// Waits until a client is refused.
async fn refused(client: Client<'_>, to: &str) {
    let look = async || match client.send_request(to).await {
        Err(error) if error.contains("refused") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{to}: {seen}"));
}

#[tokio::test]
async fn services_work_from_pods_nodes_and_outside() {
    let mut cluster: Cluster<2> = Cluster::of([1, 1]).await;
    let [a, b] = &cluster.machines;
    // The test bed finds a pod of a node by this form of its name.
    let (one, two) = (&*a.node.pod_name("one"), &*b.node.pod_name("two"));
    let port = |number: u16| json!([{"name": "web", "port": 8000, "targetPort": "http", "nodePort": number}]);
    let near = json!({"type": "NodePort", "ports": port(30081), "externalTrafficPolicy": "Local"});
    let objects = [
        pod(one, &a.node.node),
        pod(two, &b.node.node),
        service("shop", "shop", &json!({"type": "NodePort", "ports": port(30080)})),
        service("near", "shop", &near),
        service("sticky", "shop", &json!({"sessionAffinity": "ClientIP"})),
        service("names", "shop", &json!({"clusterIP": "None"})),
        service("empty", "nothing", &json!({})),
    ];
    cluster.kubectl_with("create", &objects).await;
    let shop = address(&cluster, "shop").await;
    // Pods and nodes reach both endpoints.
    let in_pod = Client::Pod(a, WEB);
    for client in [in_pod, Client::Machine(a), Client::Machine(b)] {
        answered_by(client, &shop, &[one, two]).await;
    }
    // An endpoint on another node sees the client pod's own address.
    let client: Pod = web(a).await;
    let answer = in_pod.send_request(&shop).await.unwrap();
    assert!(answer.ends_with(&format!("sees {}", client.ip())), "{answer}");
    // The desk is outside of the cluster.
    for machine in [a, b] {
        answered_by(Client::Desk, &socket(&machine.address_of(4), 30080), &[one, two]).await;
    }
    let near = socket(&a.address_of(4), 30081);
    Client::Desk.receives(&near, &format!("{one} sees {}", cluster.bed.address())).await;
    let empty = address(&cluster, "empty").await;
    refused(in_pod, &empty).await;
    refused(Client::Machine(a), &empty).await;
    let names = get(&cluster, "/api/v1/namespaces/default/services/names").await;
    assert_eq!(names["spec"]["clusterIP"], "None", "it has no address and needs no rules");
    let sticky = address(&cluster, "sticky").await;
    let first = in_pod.send_request(&sticky).await.unwrap();
    for _ in 0..10 {
        assert_eq!(in_pod.send_request(&sticky).await.unwrap(), first);
    }
    // An endpoint that is gone gets no more connections, and the other one reaches itself.
    let gone = get(&cluster, &format!("/api/v1/namespaces/default/pods/{two}")).await;
    let gone = gone["status"]["podIP"].as_str().unwrap();
    cluster.kubectl(&["delete", "pod", two, "--wait=true"]).await;
    for client in [in_pod, Client::Machine(b), Client::Pod(a, "one")] {
        answered_by(client, &shop, &[one]).await;
    }
    // Deleted rules are restored, and a kubelet that starts without a master knows the Services.
    let table = a.run("nft list tables | grep coracle-services");
    a.run(&format!("nft delete {table}"));
    answered_by(in_pod, &shop, &[one]).await;
    let stored = a.node.root_dir().join("cluster/services.json");
    let is_stored = async || {
        let text = fs::read_to_string(&stored).map_err(|error| error.to_string())?;
        if text.contains(gone) { Err(text) } else { Ok(()) }
    };
    wait_until(DEADLINE, is_stored).await.unwrap();
    cluster.master.kill();
    let node = &mut cluster.machines[0].node;
    node.stop().await;
    node.start().await;
    let a = &cluster.machines[0];
    a.run(&format!("nft delete {table}"));
    answered_by(Client::Pod(a, WEB), &shop, &[one]).await;
    // A node without pods leaves no rules when it stops.
    let b = &mut cluster.machines[1];
    assert!(b.run("nft list tables").contains("coracle-services"));
    b.node.remove("web.yaml");
    b.node.wait_gone(WEB).await;
    let root_dir = b.node.root_dir();
    let has_released = async || match network::records(&root_dir) {
        0 => Ok(()),
        records => Err(format!("{records} pods have addresses")),
    };
    wait_until(DEADLINE, has_released).await.unwrap();
    b.node.stop().await;
    let tables = b.run("nft list tables");
    assert!(!tables.contains("coracle"), "{tables}");
}
