//! Nodes without engines behave like nodes to a master: they join, run its pods, and release them.

use serde_json::{Value, json};
use tests::{DEADLINE, HOLLOW_IMAGE, HollowNodes, Master, Pod, wait_until};

const NODES: usize = 3;
const PODS: usize = 9;

async fn items(master: &Master, path: &str) -> Result<Vec<Value>, String> {
    let (code, text) = master.get_as_admin(path).await;
    let list: Value = serde_json::from_str(&text).map_err(|error| format!("{code} {error}: {text}"))?;
    list["items"].as_array().cloned().ok_or(text)
}

async fn send(master: &Master, request: reqwest::RequestBuilder) {
    let response = request.send().await.unwrap();
    let code = response.status();
    assert!(code.is_success(), "{code} {}\n{}", response.text().await.unwrap(), master.log());
}

#[tokio::test]
async fn hollow_nodes_join_and_run_scheduled_pods() {
    let flags = ["--advertise-address=127.0.0.1", "--scheduler=true"];
    let mut master =
        Master::new().with_flags(flags.into_iter().chain(["--csr-approval-policy=insecure-always-approve"]));
    master.start().await;
    let line = master.join_line().await;
    let _nodes = HollowNodes::join(&line, (0..NODES).map(|number| format!("hollow-{number}")));
    let ready = async || {
        let nodes = items(&master, "/api/v1/nodes").await?;
        let is_ready = nodes.len() == NODES && nodes.iter().all(|node| Pod(node.clone()).is_ready());
        if is_ready { Ok(()) } else { Err(json!(nodes).to_string()) }
    };
    wait_until(DEADLINE, ready).await.unwrap();

    let (client, pods) = (master.client(), "/api/v1/namespaces/default/pods");
    let container = json!({"name": "main", "image": HOLLOW_IMAGE});
    for number in 0..PODS {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}")},
            "spec": {"containers": [container]},
        });
        send(&master, client.post(master.url(pods)).json(&pod)).await;
    }
    let run = async || {
        let pods = items(&master, pods).await?;
        let all = pods.iter().all(|pod| Pod(pod.clone()).is_ready());
        if all { Ok(()) } else { Err(json!(pods).to_string()) }
    };
    wait_until(DEADLINE, run).await.unwrap();

    send(&master, client.delete(master.url(pods))).await;
    let gone = async || match items(&master, pods).await? {
        pods if pods.is_empty() => Ok(()),
        pods => Err(json!(pods).to_string()),
    };
    wait_until(DEADLINE, gone).await.unwrap();
}
