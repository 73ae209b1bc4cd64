//! All approval policies, one case per line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::options::Allowed;

const ALL: [ApprovalPolicy; 6] = [
    ApprovalPolicy::AlwaysReject,
    ApprovalPolicy::Queue,
    ApprovalPolicy::InsecureAlwaysApprove,
    ApprovalPolicy::Allowlist,
    ApprovalPolicy::Token,
    ApprovalPolicy::Webhook,
];

/// A CSR for the node `n1` from a user in these groups.
fn join(username: &str, groups: &[&str]) -> JoinRequest {
    JoinRequest {
        node: "n1".to_owned(),
        username: username.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        peer: Some([10, 0, 0, 7].into()),
        serving: None,
    }
}

fn names(all: &[&str]) -> Names {
    let mut names = Names::default();
    all.iter().for_each(|name| names.add(name));
    names
}

fn by(policy: ApprovalPolicy, listed: &[&str]) -> Box<dyn Policy> {
    let allowed = |text: &&str| match text.split_once('/') {
        Some((address, bits)) => Allowed::Network(address.parse().unwrap(), bits.parse().unwrap()),
        None => Allowed::Name((*text).to_owned()),
    };
    super::policy(&Approval { policy, allowlist: listed.iter().map(allowed).collect(), webhook: None })
}

fn word(decision: &ApprovalDecision) -> &'static str {
    match decision {
        ApprovalDecision::Approve(_) => "approve",
        ApprovalDecision::Deny(_) => "deny",
        ApprovalDecision::Wait(_) => "wait",
        ApprovalDecision::Ask => "ask",
    }
}

#[test]
fn csr_of_the_kubelet_on_the_master_is_approved_by_every_approving_policy() {
    let free = NodeFacts::default();
    let taken = NodeFacts { exists: true, ..NodeFacts::default() };
    let own = join("coracle:beside-master", &[BESIDE_MASTER, "system:authenticated"]);
    let serving = JoinRequest { serving: Some(names(&["n1"])), ..own.clone() };
    for wanted in ALL {
        let policy = by(wanted, &[]);
        let expected = match wanted {
            ApprovalPolicy::AlwaysReject => ("deny", "deny", "deny"),
            ApprovalPolicy::InsecureAlwaysApprove => ("approve", "approve", "approve"),
            ApprovalPolicy::Allowlist | ApprovalPolicy::Token => ("approve", "wait", "deny"),
            ApprovalPolicy::Queue | ApprovalPolicy::Webhook => ("approve", "wait", "wait"),
        };
        let judged = |join: &JoinRequest, known: &NodeFacts| word(&decide(&*policy, join, known));
        assert_eq!(
            (judged(&own, &free), judged(&own, &taken), judged(&serving, &free)),
            expected,
            "{wanted:?}"
        );
    }
}

#[test]
fn csr_of_a_new_node_is_decided_by_the_policy() {
    use ApprovalPolicy::{Allowlist, AlwaysReject, InsecureAlwaysApprove, Queue, Token, Webhook};
    let anonymous = join("system:anonymous", &["system:unauthenticated"]);
    let token = join("system:bootstrap:abcdef", &["system:bootstrappers", "system:authenticated"]);
    let bound = |node: &str| {
        let group = format!("system:bootstrappers:node:{node}");
        join("system:bootstrap:abcdef", &["system:bootstrappers", &group])
    };
    let pretender = join("system:bootstrap:abcdef", &["dev"]);
    for (policy, listed, join, expected) in [
        (AlwaysReject, &[][..], &anonymous, "deny"),
        (AlwaysReject, &[], &token, "deny"),
        (Queue, &[], &anonymous, "wait"),
        (InsecureAlwaysApprove, &[], &anonymous, "approve"),
        (Allowlist, &[], &anonymous, "deny"),
        (Allowlist, &["10.0.0.0/8"], &anonymous, "approve"),
        (Allowlist, &["10.0.0.7/32"], &anonymous, "approve"),
        (Allowlist, &["0.0.0.0/0"], &anonymous, "approve"),
        (Allowlist, &["::/0"], &anonymous, "deny"),
        (Allowlist, &["10.0.0.8/29"], &anonymous, "deny"),
        (Allowlist, &["n1"], &anonymous, "approve"),
        (Allowlist, &["n*"], &anonymous, "approve"),
        (Allowlist, &["*"], &anonymous, "approve"),
        (Allowlist, &["n", "n11", "*2", "n1*1"], &anonymous, "deny"),
        (Allowlist, &["n1", "10.1.0.0/16"], &anonymous, "deny"),
        (Allowlist, &["n2", "10.0.0.0/16"], &anonymous, "deny"),
        (Allowlist, &["n2", "n1", "10.1.0.0/16", "10.0.0.0/16"], &anonymous, "approve"),
        (Token, &[], &anonymous, "deny"),
        (Token, &[], &pretender, "deny"),
        (Token, &[], &token, "approve"),
        (Token, &[], &bound("n1"), "approve"),
        (Token, &[], &bound("n2"), "deny"),
        (Webhook, &[], &anonymous, "ask"),
    ] {
        let decision = decide(&*by(policy, listed), join, &NodeFacts::default());
        assert_eq!(word(&decision), expected, "{policy:?} {listed:?} {join:?}: {decision:?}");
    }
    let lost = JoinRequest { peer: None, ..anonymous };
    assert_eq!(word(&decide(&*by(Allowlist, &["0.0.0.0/0"]), &lost, &NodeFacts::default())), "deny");
}

#[test]
fn renewal_and_serving_csrs_of_a_node_are_approved_by_every_policy() {
    let known = NodeFacts {
        exists: true,
        names: names(&[
            "10.0.0.1",
            "n1.example",
            "fd00::1",
            "10.0.0.9",
            "m1",
            "web.shop.svc",
            "*.example",
            "kubernetes",
        ]),
        masters: names(&["10.0.0.9", "m1", "127.0.0.1"]),
    };
    for user in ["kubelet:n1", "system:node:n1"] {
        for policy in ALL {
            let policy = by(policy, &["n9"]);
            let own = join(user, &["system:nodes"]);
            assert_eq!(word(&decide(&*policy, &own, &known)), "approve");
            for (under, expected) in [
                (&["10.0.0.1", "n1.example"][..], "approve"),
                (&["n1"], "approve"),
                (&["10.0.0.7", "fd00::1"], "approve"),
                (&["10.0.0.1", "10.0.0.2"], "wait"),
                (&["n1", "kubernetes.default"], "wait"),
                // Names and addresses that only the node itself claims are not approved.
                (&["10.0.0.9"], "wait"),
                (&["m1"], "wait"),
                (&["KUBERNETES"], "wait"),
                (&["web.shop.svc"], "wait"),
                (&["*.example"], "wait"),
            ] {
                let serving = JoinRequest { serving: Some(names(under)), ..own.clone() };
                assert_eq!(word(&decide(&*policy, &serving, &known)), expected, "{under:?}");
            }
            let beside = JoinRequest { peer: Some([10, 0, 0, 9].into()), ..own.clone() };
            for (under, expected) in [(&["10.0.0.9", "m1"][..], "approve"), (&["kubernetes"], "wait")] {
                let serving = JoinRequest { serving: Some(names(under)), ..beside.clone() };
                assert_eq!(
                    word(&decide(&*policy, &serving, &known)),
                    expected,
                    "beside the master: {under:?}"
                );
            }
        }
    }
}

#[test]
fn csr_for_a_taken_name_waits_for_manual_approval() {
    let taken = NodeFacts { exists: true, ..NodeFacts::default() };
    let token = join("system:bootstrap:abcdef", &["system:bootstrappers"]);
    // Another node, and a user that has the name of the node but not its group.
    let other = join("kubelet:n2", &["system:nodes", "system:bootstrappers"]);
    let pretender = join("kubelet:n1", &["dev"]);
    for join in [token, other, pretender] {
        for (policy, expected) in [
            (ApprovalPolicy::Allowlist, "wait"),
            (ApprovalPolicy::Queue, "wait"),
            (ApprovalPolicy::InsecureAlwaysApprove, "approve"),
            (ApprovalPolicy::AlwaysReject, "deny"),
        ] {
            let policy = by(policy, &["n1"]);
            assert_eq!(word(&decide(&*policy, &join, &taken)), expected, "{join:?}");
            let serving = JoinRequest { serving: Some(names(&["n1"])), ..join.clone() };
            assert_eq!(word(&decide(&*policy, &serving, &NodeFacts::default())), expected, "{serving:?}");
        }
    }
}

#[test]
fn webhook_response_decides_the_csr() {
    let policy = by(ApprovalPolicy::Webhook, &[]);
    let anonymous = join("system:anonymous", &["system:unauthenticated"]);
    let webhook_review = webhook_review(&anonymous, "UEVN");
    assert_eq!((&webhook_review["node"], &webhook_review["peerAddress"]), (&json!("n1"), &json!("10.0.0.7")));
    for (answer, expected) in [
        (json!({"decision": "Approve"}), "approve"),
        (json!({"decision": "Deny", "message": "no such machine"}), "deny"),
        (json!({"decision": "Wait"}), "wait"),
        (json!({"decision": "yes"}), "wait"),
        (json!("Approve"), "wait"),
        (json!({}), "wait"),
    ] {
        assert_eq!(word(&webhook_decision(&answer)), expected, "{answer}");
    }
    let taken = NodeFacts { exists: true, ..NodeFacts::default() };
    let decision =
        apply_rules(&*policy, webhook_decision(&json!({"decision": "Approve"})), &anonymous, &taken);
    assert_eq!(word(&decision), "wait");
}

proptest! {
    /// Only the node itself, a listed machine or the owner of a token is approved; the queue approves only the node itself.
    #[test]
    fn only_the_own_name_or_a_token_is_approved_automatically(user in "(kubelet:|system:node:|system:bootstrap:|)[a-z0-9]{0,4}", group in "(system:nodes|system:bootstrappers|dev)", exists in any::<bool>()) {
        let join = join(&user, &[&group]);
        let known = NodeFacts { exists, ..NodeFacts::default() };
        let is_own = group == "system:nodes" && ["kubelet:n1", "system:node:n1"].contains(&user.as_str());
        let queue = decide(&*by(ApprovalPolicy::Queue, &[]), &join, &known);
        prop_assert_eq!(word(&queue) == "approve", is_own);
        let token = decide(&*by(ApprovalPolicy::Token, &[]), &join, &known);
        let has_token = group == "system:bootstrappers" && user.starts_with("system:bootstrap:");
        prop_assert_eq!(word(&token) == "approve", is_own || (has_token && !exists));
    }

    #[test]
    fn allowlist_patterns_never_panic(pattern in "[a-z*ü]{0,8}", name in ".{0,8}") {
        let _ = decide(&*by(ApprovalPolicy::Allowlist, &[&pattern]), &JoinRequest { node: name, ..join("", &[]) }, &NodeFacts::default());
    }
}
