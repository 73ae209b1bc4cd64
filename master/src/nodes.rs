//! What only the node of a pod could answer (logs, commands, ports), and who says that it does not.

use apiserver::Status;
use apiserver::store::Memory;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::any;
use http::StatusCode;
use serde_json::{Map, Value};

/// The parts of a pod that its node answers.
const PARTS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The paths of those parts.
pub fn router(pods: Memory) -> Router {
    let path = |part: &str| format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{part}");
    PARTS.iter().fold(Router::new(), |router, part| router.route(&path(part), any(refuse))).with_state(pods)
}

async fn refuse(State(pods): State<Memory>, Path((namespace, name)): Path<(String, String)>) -> Status {
    match pods.get("pods", &namespace, &name) {
        None => Status::not_found("pods", &name),
        Some(pod) => refusal(&name, &pod.decode()),
    }
}

/// Why the node of a pod does not answer.
fn refusal(name: &str, pod: &Map<String, Value>) -> Status {
    let node = pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
    match node.filter(|node| !node.is_empty()) {
        None => Status::bad_request(format!("pod {name} does not have a host assigned")),
        Some(node) => Status::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            format!(
                "the node {node} of pod {name} does not answer: this master does not speak to nodes; ask the kubelet on \
                 that node (kubelet logs, kubelet exec)"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    //! A pod with and without a node.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_says_which_node_does_not_answer() {
        for (spec, code, words) in [
            (json!({}), 400, "pod web does not have a host assigned"),
            (json!({"nodeName": ""}), 400, "pod web does not have a host assigned"),
            (json!({"nodeName": "n1"}), 503, "the node n1 of pod web does not answer"),
        ] {
            let pod = json!({"spec": spec});
            let said = refusal("web", pod.as_object().unwrap());
            assert_eq!((said.code, said.message.contains(words)), (code, true), "{said:?}");
        }
    }
}
