//! Every policy, a line a case.
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

/// A machine that asks to be the node `n1` as that user, in these groups.
fn asked(username: &str, groups: &[&str]) -> Asked {
    Asked {
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

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Approve(_) => "approve",
        Verdict::Deny(_) => "deny",
        Verdict::Wait(_) => "wait",
        Verdict::Ask => "ask",
    }
}

#[test]
fn the_kubelet_of_a_masters_machine_is_let_in_by_every_policy_that_lets_anybody_in() {
    let free = Known::default();
    let taken = Known { exists: true, ..Known::default() };
    let own = asked("coracle:beside-master", &[BESIDE_MASTER, "system:authenticated"]);
    let serving = Asked { serving: Some(names(&["n1"])), ..own.clone() };
    for wanted in ALL {
        let policy = by(wanted, &[]);
        let expected = match wanted {
            ApprovalPolicy::AlwaysReject => ("deny", "deny", "deny"),
            ApprovalPolicy::InsecureAlwaysApprove => ("approve", "approve", "approve"),
            ApprovalPolicy::Allowlist | ApprovalPolicy::Token => ("approve", "wait", "deny"),
            ApprovalPolicy::Queue | ApprovalPolicy::Webhook => ("approve", "wait", "wait"),
        };
        let judged = |asked: &Asked, known: &Known| word(&decide(&*policy, asked, known));
        assert_eq!(
            (judged(&own, &free), judged(&own, &taken), judged(&serving, &free)),
            expected,
            "{wanted:?}"
        );
    }
}

#[test]
fn a_stranger_is_judged_by_the_policy() {
    use ApprovalPolicy::{Allowlist, AlwaysReject, InsecureAlwaysApprove, Queue, Token, Webhook};
    let nobody = asked("system:anonymous", &["system:unauthenticated"]);
    let token = asked("system:bootstrap:abcdef", &["system:bootstrappers", "system:authenticated"]);
    let bound = |node: &str| {
        let group = format!("system:bootstrappers:node:{node}");
        asked("system:bootstrap:abcdef", &["system:bootstrappers", &group])
    };
    let pretender = asked("system:bootstrap:abcdef", &["dev"]);
    for (policy, listed, asked, expected) in [
        (AlwaysReject, &[][..], &nobody, "deny"),
        (AlwaysReject, &[], &token, "deny"),
        (Queue, &[], &nobody, "wait"),
        (InsecureAlwaysApprove, &[], &nobody, "approve"),
        (Allowlist, &[], &nobody, "deny"),
        (Allowlist, &["10.0.0.0/8"], &nobody, "approve"),
        (Allowlist, &["10.0.0.7/32"], &nobody, "approve"),
        (Allowlist, &["0.0.0.0/0"], &nobody, "approve"),
        (Allowlist, &["::/0"], &nobody, "deny"),
        (Allowlist, &["10.0.0.8/29"], &nobody, "deny"),
        (Allowlist, &["n1"], &nobody, "approve"),
        (Allowlist, &["n*"], &nobody, "approve"),
        (Allowlist, &["*"], &nobody, "approve"),
        (Allowlist, &["n", "n11", "*2", "n1*1"], &nobody, "deny"),
        (Allowlist, &["n1", "10.1.0.0/16"], &nobody, "deny"),
        (Allowlist, &["n2", "10.0.0.0/16"], &nobody, "deny"),
        (Allowlist, &["n2", "n1", "10.1.0.0/16", "10.0.0.0/16"], &nobody, "approve"),
        (Token, &[], &nobody, "deny"),
        (Token, &[], &pretender, "deny"),
        (Token, &[], &token, "approve"),
        (Token, &[], &bound("n1"), "approve"),
        (Token, &[], &bound("n2"), "deny"),
        (Webhook, &[], &nobody, "ask"),
    ] {
        let verdict = decide(&*by(policy, listed), asked, &Known::default());
        assert_eq!(word(&verdict), expected, "{policy:?} {listed:?} {asked:?}: {verdict:?}");
    }
    let lost = Asked { peer: None, ..nobody };
    assert_eq!(word(&decide(&*by(Allowlist, &["0.0.0.0/0"]), &lost, &Known::default())), "deny");
}

#[test]
fn a_node_renews_and_serves_by_itself_under_every_policy() {
    let known = Known {
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
            let own = asked(user, &["system:nodes"]);
            assert_eq!(word(&decide(&*policy, &own, &known)), "approve");
            for (under, expected) in [
                (&["10.0.0.1", "n1.example"][..], "approve"),
                (&["n1"], "approve"),
                (&["10.0.0.7", "fd00::1"], "approve"),
                (&["10.0.0.1", "10.0.0.2"], "wait"),
                (&["n1", "kubernetes.default"], "wait"),
                // A node may say of itself what it likes.
                (&["10.0.0.9"], "wait"),
                (&["m1"], "wait"),
                (&["KUBERNETES"], "wait"),
                (&["web.shop.svc"], "wait"),
                (&["*.example"], "wait"),
            ] {
                let serving = Asked { serving: Some(names(under)), ..own.clone() };
                assert_eq!(word(&decide(&*policy, &serving, &known)), expected, "{under:?}");
            }
            let beside = Asked { peer: Some([10, 0, 0, 9].into()), ..own.clone() };
            for (under, expected) in [(&["10.0.0.9", "m1"][..], "approve"), (&["kubernetes"], "wait")] {
                let serving = Asked { serving: Some(names(under)), ..beside.clone() };
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
fn a_name_that_is_taken_and_a_serving_certificate_are_left_to_people() {
    let taken = Known { exists: true, ..Known::default() };
    let token = asked("system:bootstrap:abcdef", &["system:bootstrappers"]);
    // Another node, or one that only says so.
    let other = asked("kubelet:n2", &["system:nodes", "system:bootstrappers"]);
    let pretender = asked("kubelet:n1", &["dev"]);
    for asked in [token, other, pretender] {
        for (policy, expected) in [
            (ApprovalPolicy::Allowlist, "wait"),
            (ApprovalPolicy::Queue, "wait"),
            (ApprovalPolicy::InsecureAlwaysApprove, "approve"),
            (ApprovalPolicy::AlwaysReject, "deny"),
        ] {
            let policy = by(policy, &["n1"]);
            assert_eq!(word(&decide(&*policy, &asked, &taken)), expected, "{asked:?}");
            let serving = Asked { serving: Some(names(&["n1"])), ..asked.clone() };
            assert_eq!(word(&decide(&*policy, &serving, &Known::default())), expected, "{serving:?}");
        }
    }
}

#[test]
fn the_webhook_is_asked_and_its_answer_read() {
    let policy = by(ApprovalPolicy::Webhook, &[]);
    let nobody = asked("system:anonymous", &["system:unauthenticated"]);
    let question = question(&nobody, "UEVN");
    assert_eq!((&question["node"], &question["peerAddress"]), (&json!("n1"), &json!("10.0.0.7")));
    for (answer, expected) in [
        (json!({"decision": "Approve"}), "approve"),
        (json!({"decision": "Deny", "message": "no such machine"}), "deny"),
        (json!({"decision": "Wait"}), "wait"),
        (json!({"decision": "yes"}), "wait"),
        (json!("Approve"), "wait"),
        (json!({}), "wait"),
    ] {
        assert_eq!(word(&answered(&answer)), expected, "{answer}");
    }
    let taken = Known { exists: true, ..Known::default() };
    let verdict = guarded(&*policy, answered(&json!({"decision": "Approve"})), &nobody, &taken);
    assert_eq!(word(&verdict), "wait");
}

proptest! {
    /// Only the node itself, a listed machine or a token's is ever approved; nobody by the queue.
    #[test]
    fn nobody_is_approved_by_accident(user in "(kubelet:|system:node:|system:bootstrap:|)[a-z0-9]{0,4}", group in "(system:nodes|system:bootstrappers|dev)", exists in any::<bool>()) {
        let asked = asked(&user, &[&group]);
        let known = Known { exists, ..Known::default() };
        let is_own = group == "system:nodes" && ["kubelet:n1", "system:node:n1"].contains(&user.as_str());
        let queue = decide(&*by(ApprovalPolicy::Queue, &[]), &asked, &known);
        prop_assert_eq!(word(&queue) == "approve", is_own);
        let token = decide(&*by(ApprovalPolicy::Token, &[]), &asked, &known);
        let has_token = group == "system:bootstrappers" && user.starts_with("system:bootstrap:");
        prop_assert_eq!(word(&token) == "approve", is_own || (has_token && !exists));
    }

    #[test]
    fn no_pattern_panics(pattern in "[a-z*ü]{0,8}", name in ".{0,8}") {
        let _ = decide(&*by(ApprovalPolicy::Allowlist, &[&pattern]), &Asked { node: name, ..asked("", &[]) }, &Known::default());
    }
}
