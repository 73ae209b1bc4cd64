//! Somebody outside the cluster knows who becomes a node: the question that is sent, and what its answer says.

use serde_json::{Value, json};

use super::{Asked, Policy, Verdict};

/// The longest explanation that is kept of an answer.
const LONGEST: usize = 1024;

/// The policy.
pub(super) struct Webhook;

impl Policy for Webhook {
    fn judge(&self, _: &Asked) -> Verdict {
        Verdict::Ask
    }
}

/// What is asked; `request` is the request as it stands in its object.
pub fn question(asked: &Asked, request: &str) -> Value {
    json!({
        "apiVersion": "bootstrap/v1",
        "kind": "JoinReview",
        "node": asked.node,
        "username": asked.username,
        "groups": asked.groups,
        "peerAddress": asked.peer.map(|peer| peer.to_string()),
        "request": request,
    })
}

/// What an answer says; whatever is none leaves it to people.
pub fn answered(answer: &Value) -> Verdict {
    let text = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default();
    let message: String = text("message").chars().take(LONGEST).collect();
    let message = if message.is_empty() { "the webhook says so".to_owned() } else { message };
    match text("decision") {
        "Approve" => Verdict::Approve(message),
        "Deny" => Verdict::Deny(message),
        "Wait" => Verdict::Wait(message),
        other => Verdict::Wait(format!(
            "the webhook's answer is no decision of Approve, Deny and Wait: {:?}",
            other.chars().take(LONGEST).collect::<String>()
        )),
    }
}
