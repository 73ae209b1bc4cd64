//! The approval policies of `--csr-approval-policy`. Pure.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{ApprovalDecision, JoinRequest, Policy};
use crate::options::{Allowed, is_within};

/// The group of bootstrap token users. Authentication has checked that the token is valid.
const GROUP: &str = "system:bootstrappers";
/// Prefix of bootstrap token users.
const USER: &str = "system:bootstrap:";
/// Prefix of groups that bind a token to a node.
const NODE: &str = "system:bootstrappers:node:";
/// Maximum length of a message, in characters.
const LONGEST: usize = 1024;

/// The policy `always-reject`, which denies all new nodes.
pub(super) struct AlwaysReject;

impl Policy for AlwaysReject {
    fn evaluate(&self, _: &JoinRequest) -> ApprovalDecision {
        ApprovalDecision::Deny(
            "this cluster takes no new nodes (--csr-approval-policy always-reject)".to_owned(),
        )
    }

    fn admits_nodes(&self) -> bool {
        false
    }
}

/// The policy `queue`, which leaves each request to an administrator.
pub(super) struct Queue;

impl Policy for Queue {
    fn evaluate(&self, join: &JoinRequest) -> ApprovalDecision {
        ApprovalDecision::Wait(format!("{} requests a certificate of node {}", join.username, join.node))
    }
}

/// The policy `insecure-always-approve`, which admits every machine under any name. For experiments only.
pub(super) struct InsecureAlwaysApprove;

impl Policy for InsecureAlwaysApprove {
    fn evaluate(&self, _: &JoinRequest) -> ApprovalDecision {
        ApprovalDecision::Approve(
            "approved without a check (--csr-approval-policy insecure-always-approve)".to_owned(),
        )
    }

    fn protects_names(&self) -> bool {
        false
    }
}

/// The policy `allowlist`, which admits machines by network and node name. If both are listed, both must match.
pub(super) struct Allowlist {
    networks: Vec<(IpAddr, u8)>,
    names: Vec<String>,
}

impl Allowlist {
    /// Creates the policy with these entries.
    pub(super) fn of(listed: &[Allowed]) -> Self {
        let (mut networks, mut names) = (Vec::new(), Vec::new());
        for one in listed {
            match one {
                Allowed::Network(address, bits) => networks.push((*address, *bits)),
                Allowed::Name(name) => names.push(name.clone()),
            }
        }
        Self { networks, names }
    }

    fn matches_network(&self, peer: Option<IpAddr>) -> bool {
        let holds =
            |peer: IpAddr| self.networks.iter().any(|(network, bits)| is_within(peer, *network, *bits));
        self.networks.is_empty() || peer.is_some_and(holds)
    }

    fn matches_name(&self, node: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| fits(name, node))
    }
}

impl Policy for Allowlist {
    fn evaluate(&self, join: &JoinRequest) -> ApprovalDecision {
        if self.networks.is_empty() && self.names.is_empty() {
            return ApprovalDecision::Deny("the allowlist is empty (--csr-approval-allowlist)".to_owned());
        }
        if !self.matches_name(&join.node) {
            return ApprovalDecision::Deny(format!("the name {} is not on the allowlist", join.node));
        }
        if !self.matches_network(join.peer) {
            let peer = join.peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string());
            return ApprovalDecision::Deny(format!("{peer} is in no network on the allowlist"));
        }
        ApprovalDecision::Approve("the machine is on the allowlist".to_owned())
    }
}

/// Whether a name matches a pattern. `*` matches any characters, including dots.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).any(|at| left.get(at..).is_some_and(|left| fits(rest, left)))
        }),
    }
}

/// The policy `token`, which admits requests with a valid bootstrap token. The token is for any free name, or for
/// the names to which it is bound. `auth-extra-groups` of the token's Secret binds it:
/// `system:bootstrappers:node:<name>`.
pub(super) struct Token;

impl Policy for Token {
    fn evaluate(&self, join: &JoinRequest) -> ApprovalDecision {
        if !join.username.starts_with(USER) || !join.is_in(GROUP) {
            return ApprovalDecision::Deny(format!(
                "{} has no bootstrap token (--csr-approval-policy token): create one, see docs/joining.md",
                join.username
            ));
        }
        let mut bound = join.groups.iter().filter_map(|group| group.strip_prefix(NODE)).peekable();
        if bound.peek().is_none() || bound.any(|name| name == join.node) {
            ApprovalDecision::Approve(format!("{} may add nodes", join.username))
        } else {
            ApprovalDecision::Deny(format!(
                "the token of {} is for other nodes than {}",
                join.username, join.node
            ))
        }
    }
}

/// The policy `webhook`, which asks the approval webhook.
pub(super) struct Webhook;

impl Policy for Webhook {
    fn evaluate(&self, _: &JoinRequest) -> ApprovalDecision {
        ApprovalDecision::Ask
    }
}

/// The JoinReview for a request. `request` is the CSR of the object in base64.
pub fn webhook_review(join: &JoinRequest, request: &str) -> Value {
    json!({
        "apiVersion": "bootstrap/v1",
        "kind": "JoinReview",
        "node": join.node,
        "username": join.username,
        "groups": join.groups,
        "peerAddress": join.peer.map(|peer| peer.to_string()),
        "request": request,
    })
}

/// The decision in a response. An invalid response leaves the request to administrators.
pub fn webhook_decision(answer: &Value) -> ApprovalDecision {
    let text = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default();
    let message: String = text("message").chars().take(LONGEST).collect();
    let message = if message.is_empty() { "decided by the webhook".to_owned() } else { message };
    match text("decision") {
        "Approve" => ApprovalDecision::Approve(message),
        "Deny" => ApprovalDecision::Deny(message),
        "Wait" => ApprovalDecision::Wait(message),
        other => ApprovalDecision::Wait(format!(
            "the webhook's decision is not Approve, Deny or Wait: {:?}",
            other.chars().take(LONGEST).collect::<String>()
        )),
    }
}
