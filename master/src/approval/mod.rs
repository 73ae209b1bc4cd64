//! Who becomes a node: a policy says it once of a machine, and what a node asks for itself from then on is its own. Pure.
//!
//! A policy is a file that looks at what is asked and says what becomes of it; where it lets anybody in, whoever has the files of a
//! master's machine is let in without a look. Beside every policy but the one that minds nothing
//! stand two rules: a name that is a node's is not given to somebody else, and a serving certificate only to its node itself;
//! people may decide otherwise (`kubectl certificate approve`).

mod allowlist;
mod always_reject;
mod insecure_always_approve;
mod queue;
mod serving;
mod token;
mod webhook;

use std::net::IpAddr;

use apiserver::identity::BESIDE_MASTER;

use crate::options::{Approval, ApprovalPolicy};
use crate::pki::{Names, Request, Signer, node};

pub use self::webhook::{answered, question};

/// What a request for a node's certificate comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The node that the certificate would be of.
    pub node: String,
    /// Who asks.
    pub username: String,
    /// The groups of who asks.
    pub groups: Vec<String>,
    /// From where, where that is known.
    pub peer: Option<IpAddr>,
    /// The names it would serve under; `None` for a client's certificate.
    pub serving: Option<Names>,
}

/// What is known of the node of that name, and of the master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// There is one.
    pub exists: bool,
    /// What its object says it is reached by.
    pub names: Names,
    /// What the master itself serves under.
    pub masters: Names,
}

/// What becomes of a request, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is approved.
    Approve(String),
    /// It is denied.
    Deny(String),
    /// People decide.
    Wait(String),
    /// Somebody outside the cluster is asked.
    Ask,
}

/// Says who becomes a node.
pub trait Policy: Send + Sync {
    /// What becomes of a request of somebody who is not that node yet.
    fn judge(&self, asked: &Asked) -> Verdict;

    /// Whether it lets anybody in.
    fn lets_in(&self) -> bool {
        true
    }

    /// Whether it minds whose a name is already.
    fn minds(&self) -> bool {
        true
    }
}

/// The policy that is wanted.
pub fn policy(wanted: &Approval) -> Box<dyn Policy> {
    match wanted.policy {
        ApprovalPolicy::AlwaysReject => Box::new(always_reject::AlwaysReject),
        ApprovalPolicy::Queue => Box::new(queue::Queue),
        ApprovalPolicy::InsecureAlwaysApprove => Box::new(insecure_always_approve::InsecureAlwaysApprove),
        ApprovalPolicy::Allowlist => Box::new(allowlist::Allowlist::of(&wanted.allowlist)),
        ApprovalPolicy::Token => Box::new(token::Token),
        ApprovalPolicy::Webhook => Box::new(webhook::Webhook),
    }
}

impl Asked {
    /// What a request is for; `None` for those that are no node's, which are left to people, and those that nobody would sign.
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

    /// Whether the node itself asks, which holds a certificate then.
    pub fn is_own(&self) -> bool {
        node::of_user(&self.username) == Some(self.node.as_str()) && self.is_in(node::GROUP)
    }

    /// Whether who asks is in that group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// What becomes of a request by that policy.
pub fn decide(policy: &dyn Policy, asked: &Asked, known: &Known) -> Verdict {
    match (&asked.serving, asked.is_own()) {
        (None, true) => Verdict::Approve("the node renews its own certificate".to_owned()),
        (Some(names), true) => serving::judge(names, asked, known),
        (None, false) if asked.is_in(BESIDE_MASTER) && policy.lets_in() => {
            let why = "it was asked for with the bootstrap.kubeconfig of a master's machine".to_owned();
            guarded(policy, Verdict::Approve(why), asked, known)
        }
        (_, false) => guarded(policy, policy.judge(asked), asked, known),
    }
}

/// What is left of a verdict beside the rules that stand beside every policy.
pub fn guarded(policy: &dyn Policy, verdict: Verdict, asked: &Asked, known: &Known) -> Verdict {
    let node = &asked.node;
    match verdict {
        Verdict::Approve(_) if policy.minds() && known.exists => Verdict::Wait(format!(
            "there is a node {node} already: delete it first if this is the same machine made anew, or approve"
        )),
        Verdict::Approve(_) | Verdict::Ask if policy.minds() && asked.serving.is_some() => {
            Verdict::Wait(format!(
                "{} is not the node {node}, which alone is given a serving certificate by itself",
                asked.username
            ))
        }
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests;
