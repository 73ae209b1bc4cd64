//! Helpers for masters that are static pods: the state of nodes and pods, kubectl, approvals.

use serde_json::Value;
use tests::{Files, Machine, Pod, binary};

/// The tag of the image in tests.
pub const TAG: &str = "test";

/// The image of the master with the binary under test.
pub fn image() -> Files {
    Files::of(&binary("master"))
}

/// Waits until the answer of a machine's master for a path satisfies the condition.
pub async fn sees(machine: &Machine, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let found = machine.get_json(path).await?;
        if holds(&found) { Ok(found) } else { Err(format!("it is {found}")) }
    };
    machine.node.wait_for(&format!("{path}: {what}"), look).await
}

/// Waits until another machine's node is Ready at a machine's master.
pub async fn node_ready(machine: &Machine, of: &Machine) -> Value {
    let path = format!("/api/v1/nodes/{}", of.node.node);
    sees(machine, &path, "to be Ready", |node| Pod(node.clone()).is_ready()).await
}

/// Runs kubectl on a machine; it must succeed.
pub async fn kubectl(machine: &Machine, arguments: &[&str]) -> String {
    let output = machine.kubectl(arguments).await;
    assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}\n{}", machine.node.log_tail());
    output.stdout
}

/// Approves the requests of another machine as the administrator.
pub async fn approve(machine: &Machine, of: &Machine) {
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let its = |request: &Value| {
        let name = request["metadata"]["name"].as_str()?;
        let log = std::fs::read_to_string(of.node.log_path()).ok()?;
        log.contains(&format!("kubectl certificate approve {name}")).then(|| name.to_owned())
    };
    let named = |list: &Value| list["items"].as_array().into_iter().flatten().find_map(its);
    let list = sees(machine, requests, "a request of another machine", |list| named(list).is_some()).await;
    kubectl(machine, &["certificate", "approve", &named(&list).unwrap()]).await;
}

/// Waits until the pod is Ready at a machine's master.
pub async fn pod_ready(machine: &Machine, name: &str) -> Pod {
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    Pod(sees(machine, &path, "to be Ready", |pod| Pod(pod.clone()).is_ready()).await)
}

/// The names and UIDs of the objects in a list of a machine's master.
pub async fn names(machine: &Machine, path: &str) -> Vec<(String, String)> {
    let list = sees(machine, path, "a list", |list| list["items"].is_array()).await;
    let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
    list["items"].as_array().unwrap().iter().map(|item| (text(item, "name"), text(item, "uid"))).collect()
}
