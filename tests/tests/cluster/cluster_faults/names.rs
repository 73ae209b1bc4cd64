//! Two machines with one node name: the running node keeps the name, and the other machine waits for it.

use serde_json::Value;
use tests::{Bed, Master, wait_until};

use crate::cluster_faults::cluster::RECOVERY;

const NODE: &str = "twin";

async fn read(master: &Master, path: &str) -> Result<Value, String> {
    let answer = master.client().get(master.url(path)).send().await.map_err(|error| error.to_string())?;
    answer.json().await.map_err(|error| error.to_string())
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Waits until the Node is Ready and has this address.
async fn wait_ready_at(master: &Master, address: &str) {
    let look = async || {
        let node = read(master, &format!("/api/v1/nodes/{NODE}")).await?;
        let is_ready = condition(&node, "Ready").is_some_and(|ready| ready["status"] == "True");
        let has_address = node["status"]["addresses"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["address"] == address));
        if is_ready && has_address { Ok(()) } else { Err(node["status"].to_string()) }
    };
    wait_until(RECOVERY, look).await.unwrap();
}

#[tokio::test]
async fn second_machine_with_a_node_name_waits_until_the_first_leaves() {
    let (bed, [mut first, mut second]) = Bed::named([NODE, NODE]).await;
    // Twice the interval of lease renewals: the first node must not be lost on a busy machine.
    let master = bed.master(&["--node-monitor-grace-period", "20s"]).await;
    first.join(&master, &[]).await;
    wait_ready_at(&master, &first.address).await;

    second.join(&master, &[]).await;
    let admin = master.data_dir().join("admin.kubeconfig");
    let look = async || {
        let requests = read(&master, "/apis/certificates.k8s.io/v1/certificatesigningrequests").await?;
        let held = requests["items"].as_array().and_then(|all| {
            all.iter().find_map(|request| Some((request, condition(request, "NodeNameInUse")?)))
        });
        held.map(|(request, held)| (request.clone(), held["message"].to_string()))
            .ok_or_else(|| requests.to_string())
    };
    let (request, message) = wait_until(RECOVERY, look)
        .await
        .unwrap_or_else(|seen| panic!("{seen}\n{}\n{}", second.node.log_tail(), master.log()));
    assert!(request["status"]["certificate"].is_null(), "{request}");
    assert!(message.contains(NODE) && message.contains(&first.address), "{message}");
    let shown = master.kubectl(&admin, &["get", "csr"]).await;
    assert!(shown.stdout.contains("Approved,NodeNameInUse"), "{shown:?}");
    let checked = master.verb(&["check"]).await;
    assert!(checked.stdout.contains("node name is in use"), "{checked:?}");
    let look = async || {
        let log = second.node.log_tail();
        if log.contains("is Ready on another machine") { Ok(()) } else { Err(log) }
    };
    wait_until(RECOVERY, look).await.unwrap();
    wait_ready_at(&master, &first.address).await;

    first.power_off();
    wait_ready_at(&master, &second.address).await;
}
