//! Parses and validates the flags for CSR approval and node admission.

use command::InvalidValue;

use super::values;
use crate::options::{Allowed, Approval, ApprovalPolicy, NodeAdmission, NodeMode};
use crate::pki::names;

/// The flags that [`check`] validates together.
pub const FLAGS: &[&str] = &[
    "--csr-approval-policy",
    "--csr-approval-allowlist",
    "--csr-approval-webhook",
    "--node-admission",
    "--node-allowlist",
];

/// The approval policies by name.
const POLICIES: [(&str, ApprovalPolicy); 6] = [
    ("always-reject", ApprovalPolicy::AlwaysReject),
    ("queue", ApprovalPolicy::Queue),
    ("insecure-always-approve", ApprovalPolicy::InsecureAlwaysApprove),
    ("allowlist", ApprovalPolicy::Allowlist),
    ("token", ApprovalPolicy::Token),
    ("webhook", ApprovalPolicy::Webhook),
];

/// Parses `--csr-approval-policy`.
pub fn policy(text: &str) -> Result<ApprovalPolicy, InvalidValue> {
    let found = POLICIES.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
    found.ok_or_else(|| format!("is none of {}", POLICIES.map(|(name, _)| name).join(", ")))
}

/// Parses a network, or a node name in which `*` matches any characters.
pub fn allowed(text: &str) -> Result<Allowed, InvalidValue> {
    if text.contains('/') {
        return values::network(text).map(|(address, bits)| Allowed::Network(address, bits));
    }
    // Apart from `*`, only characters of DNS names are allowed.
    if names::is_dns_name(&text.replace('*', "x")) && text == text.to_lowercase() {
        Ok(Allowed::Name(text.to_owned()))
    } else {
        Err("must be a network like 10.0.0.0/8 or a node name like worker-*".to_owned())
    }
}

/// The node admission modes by name.
const MODES: [(&str, NodeMode); 3] =
    [("open", NodeMode::Open), ("allowlist", NodeMode::Allowlist), ("certificate", NodeMode::Certificate)];

/// Parses `--node-admission`.
pub fn mode(text: &str) -> Result<NodeMode, InvalidValue> {
    let found = MODES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
    found.ok_or_else(|| format!("is none of {}", MODES.map(|(name, _)| name).join(", ")))
}

/// The errors for flags that are missing, belong to another policy or mode, or contradict each other.
pub fn check(approval: &Approval, nodes: &NodeAdmission) -> Vec<String> {
    let listed = (approval.policy == ApprovalPolicy::Allowlist) == approval.allowlist.is_empty();
    let is_inconsistent = (approval.policy == ApprovalPolicy::Webhook) == approval.webhook.is_none();
    let everybody = approval.policy == ApprovalPolicy::InsecureAlwaysApprove;
    let mistakes = [
        (
            (nodes.mode == NodeMode::Allowlist) == nodes.allowlist.is_empty(),
            "--node-admission allowlist needs --node-allowlist and vice versa",
        ),
        (
            nodes.mode == NodeMode::Certificate && everybody,
            "--node-admission certificate admits nodes with an approved certificate, and --csr-approval-policy \
             insecure-always-approve approves all of them: choose another policy or mode",
        ),
        (listed, "--csr-approval-policy allowlist needs --csr-approval-allowlist and vice versa"),
        (is_inconsistent, "--csr-approval-policy webhook needs --csr-approval-webhook and vice versa"),
    ];
    mistakes.into_iter().filter(|(is_one, _)| *is_one).map(|(_, mistake)| mistake.to_owned()).collect()
}
