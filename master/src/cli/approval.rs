//! The flags that say who becomes a node, and what goes with what.

use command::Wanted;

use super::values;
use crate::options::{Allowed, Approval, ApprovalPolicy, NodeAdmission, NodeMode};
use crate::pki::names;

/// What [`check`] looks at together.
pub const FLAGS: &[&str] = &[
    "--csr-approval-policy",
    "--csr-approval-allowlist",
    "--csr-approval-webhook",
    "--node-admission",
    "--node-allowlist",
];

/// The policies by their names.
const POLICIES: [(&str, ApprovalPolicy); 6] = [
    ("always-reject", ApprovalPolicy::AlwaysReject),
    ("queue", ApprovalPolicy::Queue),
    ("insecure-always-approve", ApprovalPolicy::InsecureAlwaysApprove),
    ("allowlist", ApprovalPolicy::Allowlist),
    ("token", ApprovalPolicy::Token),
    ("webhook", ApprovalPolicy::Webhook),
];

/// A policy.
pub fn policy(text: &str) -> Result<ApprovalPolicy, Wanted> {
    let found = POLICIES.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
    found.ok_or_else(|| format!("is none of {}", POLICIES.map(|(name, _)| name).join(", ")))
}

/// A network, or the name of a node with `*` for any letters.
pub fn allowed(text: &str) -> Result<Allowed, Wanted> {
    if text.contains('/') {
        return values::network(text).map(|(address, bits)| Allowed::Network(address, bits));
    }
    // Whatever the stars stand for, the rest are letters of names.
    if names::is_dns_name(&text.replace('*', "x")) && text == text.to_lowercase() {
        Ok(Allowed::Name(text.to_owned()))
    } else {
        Err("is neither a network like 10.0.0.0/8 nor the name of a node, like worker-*".to_owned())
    }
}

/// The modes by their names.
const MODES: [(&str, NodeMode); 3] =
    [("open", NodeMode::Open), ("allowlist", NodeMode::Allowlist), ("certificate", NodeMode::Certificate)];

/// How a node registers.
pub fn mode(text: &str) -> Result<NodeMode, Wanted> {
    let found = MODES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
    found.ok_or_else(|| format!("is none of {}", MODES.map(|(name, _)| name).join(", ")))
}

/// What is missing of the flags of a policy or mode, or given to another, and what contradicts itself.
pub fn check(approval: &Approval, nodes: &NodeAdmission) -> Vec<String> {
    let listed = (approval.policy == ApprovalPolicy::Allowlist) == approval.allowlist.is_empty();
    let asked = (approval.policy == ApprovalPolicy::Webhook) == approval.webhook.is_none();
    let everybody = approval.policy == ApprovalPolicy::InsecureAlwaysApprove;
    let mistakes = [
        (
            (nodes.mode == NodeMode::Allowlist) == nodes.allowlist.is_empty(),
            "--node-admission allowlist and --node-allowlist go together: give both or none",
        ),
        (
            nodes.mode == NodeMode::Certificate && everybody,
            "--node-admission certificate lets in whose certificate was approved, and --csr-approval-policy \
             insecure-always-approve approves everybody's: choose another policy or mode",
        ),
        (
            listed,
            "--csr-approval-policy allowlist and --csr-approval-allowlist go together: give both or none",
        ),
        (asked, "--csr-approval-policy webhook and --csr-approval-webhook go together: give both or none"),
    ];
    mistakes.into_iter().filter(|(is_one, _)| *is_one).map(|(_, mistake)| mistake.to_owned()).collect()
}
