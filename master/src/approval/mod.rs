//! Approval of node certificate requests. A policy admits a machine once, and the node then renews its own
//! certificates. Pure.
//!
//! A policy judges requests of new nodes. A policy that admits nodes also admits requests from a master's own
//! machine. Two rules apply to all policies except `insecure-always-approve`. Another machine does not get the name
//! of an existing node, and only the node itself gets a serving certificate. Administrators may override both with
//! `kubectl certificate approve`.

mod policies;
mod serving;

use std::net::IpAddr;

use apiserver::identity::BESIDE_MASTER;

use crate::options::{Approval, ApprovalPolicy};
use crate::pki::{Names, Request, Signer, node};

use self::policies::{Allowlist, AlwaysReject, InsecureAlwaysApprove, Queue, Token, Webhook};
pub use self::policies::{webhook_decision, webhook_review};

/// A request for a node certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// The node name in the request.
    pub node: String,
    /// The requesting user.
    pub username: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The address from which the request came, if it is known.
    pub peer: Option<IpAddr>,
    /// The names for a serving certificate. `None` for a client certificate.
    pub serving: Option<Names>,
}

/// What the master knows about the node that a request names, and about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Whether the Node exists.
    pub exists: bool,
    /// The addresses in the Node's status.
    pub names: Names,
    /// The names in the master's serving certificate.
    pub masters: Names,
}

/// The decision on a request, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Approve the request.
    Approve(String),
    /// Deny the request.
    Deny(String),
    /// Leave the decision to an administrator.
    Wait(String),
    /// Ask the approval webhook.
    Ask,
}

/// An approval policy.
pub trait Policy: Send + Sync {
    /// Judges a request from a machine that is not that node yet.
    fn evaluate(&self, join: &JoinRequest) -> ApprovalDecision;

    /// Whether the policy admits new nodes at all.
    fn admits_nodes(&self) -> bool {
        true
    }

    /// Whether the rules that protect existing names apply.
    fn protects_names(&self) -> bool {
        true
    }
}

/// The configured policy.
pub fn policy(wanted: &Approval) -> Box<dyn Policy> {
    match wanted.policy {
        ApprovalPolicy::AlwaysReject => Box::new(AlwaysReject),
        ApprovalPolicy::Queue => Box::new(Queue),
        ApprovalPolicy::InsecureAlwaysApprove => Box::new(InsecureAlwaysApprove),
        ApprovalPolicy::Allowlist => Box::new(Allowlist::of(&wanted.allowlist)),
        ApprovalPolicy::Token => Box::new(Token),
        ApprovalPolicy::Webhook => Box::new(Webhook),
    }
}

impl JoinRequest {
    /// Parses a request. `None` if it is not for a node certificate, or could not be signed.
    pub fn of(
        signer: &str,
        request: &Request,
        usages: &[&str],
        (username, groups): (&str, &[String]),
        peer: Option<IpAddr>,
    ) -> Option<Self> {
        let signer = Signer::of(signer)?;
        let serving = match signer {
            Signer::Client => return None,
            Signer::NodeClient => None,
            Signer::NodeServing => Some(request.names.clone()),
        };
        signer.check(request, usages).ok()?;
        let node = node::of_user(&request.common_name)?.to_owned();
        Some(Self { node, username: username.to_owned(), groups: groups.to_vec(), peer, serving })
    }

    /// Whether the node itself sends the request, with its current certificate.
    pub fn is_own(&self) -> bool {
        node::of_user(&self.username) == Some(self.node.as_str()) && self.is_in(node::GROUP)
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Judges a request by a policy and the rules for all policies.
pub fn decide(policy: &dyn Policy, join: &JoinRequest, known: &NodeFacts) -> ApprovalDecision {
    match (&join.serving, join.is_own()) {
        (None, true) => ApprovalDecision::Approve("the node renews its own certificate".to_owned()),
        (Some(names), true) => serving::judge(names, join, known),
        (None, false) if join.is_in(BESIDE_MASTER) && policy.admits_nodes() => {
            let why = "requested with the bootstrap.kubeconfig of a master's machine".to_owned();
            apply_rules(policy, ApprovalDecision::Approve(why), join, known)
        }
        (_, false) => apply_rules(policy, policy.evaluate(join), join, known),
    }
}

/// Applies the rules for all policies to a decision.
pub fn apply_rules(
    policy: &dyn Policy,
    decision: ApprovalDecision,
    join: &JoinRequest,
    known: &NodeFacts,
) -> ApprovalDecision {
    let node = &join.node;
    match decision {
        ApprovalDecision::Approve(_) if policy.protects_names() && known.exists => {
            ApprovalDecision::Wait(format!(
                "node {node} exists already: delete the Node if this is the same machine installed again, or approve the request"
            ))
        }
        ApprovalDecision::Approve(_) | ApprovalDecision::Ask
            if policy.protects_names() && join.serving.is_some() =>
        {
            ApprovalDecision::Wait(format!(
                "{} is not the node {node}; only the node itself gets a serving certificate automatically",
                join.username
            ))
        }
        decision => decision,
    }
}

#[cfg(test)]
mod tests;
