//! Tests of the trust modes and of what is written to Nodes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn node(annotations: &[(&str, &str)]) -> Json {
    let annotations: Json =
        annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    json!({"metadata": {"name": "a", "annotations": annotations}}).as_object().unwrap().clone()
}

fn by(mode: NodeMode) -> NodeAdmission {
    NodeAdmission { mode, allowlist: vec![([10, 0, 0, 0].into(), 8)] }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn after_a_change_to_certificate_mode_old_nodes_stay_and_new_ones_are_rejected() {
    use NodeMode::{Allowlist, Certificate, Open};
    let old = [(REGISTERED_FROM, "10.0.0.1"), (KEYS, "aa")];
    for (mode, annotations, expected) in [
        (Open, &old[..], Some((true, "Open"))),
        (Open, &[], None),
        (Allowlist, &old, Some((true, "Listed"))),
        (Allowlist, &[(REGISTERED_FROM, "192.0.2.1"), (KEYS, "aa")], Some((false, "NotListed"))),
        (Allowlist, &[(REGISTERED_FROM, "here")], Some((false, "NotListed"))),
        (Allowlist, &[], Some((false, "NotListed"))),
        (Certificate, &old, Some((true, "KeyRegistered"))),
        (Certificate, &[(REGISTERED_FROM, "10.0.0.1")], Some((false, "NoKey"))),
        (Certificate, &[(KEYS, " , ")], Some((false, "NoKey"))),
        (Certificate, &[(TRUSTED, "true")], Some((true, "Declared"))),
        (Open, &[(TRUSTED, "false"), (KEYS, "aa")], Some((false, "Declared"))),
    ] {
        let found = evaluate(&by(mode), &node(annotations));
        assert_eq!(found.map(|trust| (trust.holds, trust.reason)), expected, "{mode:?} {annotations:?}");
    }
}

#[test]
fn allowlist_rejects_registrations_from_other_networks() {
    for (mode, peer, expected) in [
        (NodeMode::Allowlist, Some([10, 9, 9, 9]), true),
        (NodeMode::Allowlist, Some([11, 0, 0, 1]), false),
        (NodeMode::Allowlist, None, false),
        (NodeMode::Open, None, true),
        (NodeMode::Certificate, Some([11, 0, 0, 1]), true),
    ] {
        assert_eq!(admit(&by(mode), peer.map(IpAddr::from)).is_ok(), expected, "{mode:?} {peer:?}");
    }
}

#[test]
fn registration_ignores_trust_annotations_of_the_node() {
    let mut sent = node(&[(TRUSTED, "true"), (KEYS, "bb"), ("example.com/own", "x")]);
    let who = Identity {
        peer: Some([10, 0, 0, 7].into()),
        key: Some("aa".to_owned()),
        signed_by: Some("authority".to_owned()),
        ..Identity::default()
    };
    record_registration(&mut sent, &who);
    assert_eq!(
        sent["metadata"]["annotations"],
        json!({REGISTERED_FROM: "10.0.0.7", KEYS: "aa", SIGNED_BY: "authority", "example.com/own": "x"})
    );
    let mut bare = Json::new();
    record_registration(&mut bare, &Identity::default());
    assert_eq!(bare["metadata"]["annotations"], json!({}));
}

#[test]
fn registration_replaces_the_reserved_node_and_keeps_its_labels_and_keys() {
    let mut reserved = node(&[
        (RESERVED, "true"),
        (KEYS, "aa"),
        (REGISTERED_FROM, "10.0.0.1"),
        (TRUSTED, "true"),
        ("x", "people"),
    ]);
    reserved["metadata"]["labels"] = json!({"tier": "people", "rack": "1"});
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let taints = json!([taint(TAINT, ""), taint("both", "people")]);
    reserved.insert(
        "spec".to_owned(),
        json!({"unschedulable": true, "taints": taints, "podCIDR": "10.1.0.0/24"}),
    );
    reserved["metadata"]["finalizers"] = json!(["cloud/node"]);
    assert!(is_reserved(&reserved));
    let mut own = node(&[(KEYS, "aa"), (REGISTERED_FROM, "10.0.0.2"), ("x", "own"), ("y", "own")]);
    own["metadata"]["labels"] = json!({"tier": "own", "zone": "z"});
    own.insert(
        "spec".to_owned(),
        json!({"podCIDR": "10.9.0.0/16", "taints": [taint("own", ""), taint("both", "own")]}),
    );
    adopt_reserved(&mut own, &reserved);
    let annotations =
        json!({KEYS: "aa", REGISTERED_FROM: "10.0.0.2", TRUSTED: "true", "x": "people", "y": "own"});
    assert_eq!(own["metadata"]["annotations"], annotations);
    assert_eq!(own["metadata"]["labels"], json!({"tier": "people", "rack": "1", "zone": "z"}));
    assert_eq!(
        own["spec"],
        json!({"podCIDR": "10.1.0.0/24", "unschedulable": true, "taints": [taint("own", ""), taint("both", "people")]})
    );
    assert_eq!(own["metadata"]["finalizers"], json!(["cloud/node"]));
    assert!(!is_reserved(&own), "once");
    reserved.insert("status".to_owned(), json!({"nodeInfo": {"kubeletVersion": "v1"}}));
    assert!(!is_reserved(&reserved), "a kubelet goes on with it as it is");
    let mut leaving = node(&[(RESERVED, "true")]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!is_reserved(&leaving), "a terminating node is not taken over");
    // A node without a client certificate changes no key.
    let mut keyless = node(&[]);
    adopt_reserved(&mut keyless, &node(&[(RESERVED, "true"), (KEYS, "aa")]));
    assert_eq!(keyless["metadata"]["annotations"], json!({KEYS: "aa"}));
}

#[test]
fn invalid_trust_annotations_are_detected() {
    let digest = "0123456789abcdef".repeat(4);
    let two = format!("{digest},{digest}");
    for (name, value, is_nonsense) in [
        (TRUSTED, "true", false),
        (TRUSTED, "false", false),
        (TRUSTED, "no", true),
        (TRUSTED, "False", true),
        (KEYS, &*two, false),
        (KEYS, "zzz", true),
        ("other", "no", false),
    ] {
        let found = invalid_annotation(&node(&[(name, value)]));
        assert_eq!(found.map(|(name, ..)| name), is_nonsense.then_some(name), "{name}={value}");
    }
    let typo = evaluate(&NodeAdmission::default(), &node(&[(TRUSTED, "no")]));
    assert!(!typo.unwrap().holds);
}

#[test]
fn node_keeps_at_most_four_keys_of_one_machine() {
    let full = node(&[(KEYS, "aa,bb,cc,dd")]);
    assert_eq!(with_key(&full, "ee", true), "ee,aa,bb,cc");
    assert_eq!(with_key(&full, "cc", true), "cc,aa,bb,dd");
    assert_eq!(with_key(&full, "ee", false), "ee");
    assert_eq!(with_key(&node(&[]), "aa", true), "aa");
}

#[test]
fn untrusted_node_has_a_condition_and_a_taint() {
    let mut it = node(&[]);
    it.insert("spec".to_owned(), json!({"taints": [{"key": "own", "effect": "NoExecute"}]}));
    it.insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    let [no, yes] = [false, true].map(|holds| Trust { holds, reason: "R", message: "m".to_owned() });
    assert!(apply(&mut it, &no, at(1)) && is_tainted(&it));
    assert!(!apply(&mut it, &no, at(2)), "nothing has changed");
    assert_eq!(it["spec"]["taints"].as_array().unwrap().len(), 2);
    let found = condition(&it).unwrap();
    assert_eq!(
        (&found["status"], &found["lastTransitionTime"]),
        (&"False".into(), &"1970-01-01T00:00:01Z".into())
    );
    let mut written_over = it.clone();
    written_over.insert("status".to_owned(), json!({"conditions": [{"type": "Trusted", "status": "True"}]}));
    restore_condition(&mut written_over, &it);
    assert_eq!(condition(&written_over), condition(&it));
    assert!(apply(&mut it, &yes, at(3)) && !is_tainted(&it));
    assert_eq!(it["spec"]["taints"], json!([{"key": "own", "effect": "NoExecute"}]));
    assert_eq!(it["status"]["conditions"].as_array().unwrap().len(), 2);
    // A condition that was written once is updated in open mode, too.
    assert!(evaluate(&by(NodeMode::Open), &it).is_some());
}

#[test]
fn only_pods_that_tolerate_the_taint_are_admitted() {
    for (toleration, expected) in [
        (json!({"key": TAINT, "operator": "Exists"}), true),
        (json!({"operator": "Exists"}), true),
        (json!({"key": TAINT, "effect": "NoSchedule"}), true),
        (json!({"key": TAINT, "operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"key": TAINT, "value": "x"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!(7), false),
    ] {
        let pod = json!({"spec": {"tolerations": [toleration]}}).as_object().unwrap().clone();
        assert_eq!(tolerates(&pod), expected, "{pod:?}");
    }
}

proptest! {
    #[test]
    fn applying_the_trust_decision_twice_changes_nothing(
        holds: bool, taints in proptest::collection::vec("[a-z]{1,3}|coracle.io/untrusted", 0..4), broken in 0_u8..4,
    ) {
        let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        let mut it = node(&[]);
        it.insert("spec".to_owned(), if broken == 0 { json!("x") } else { json!({"taints": taints}) });
        it.insert("status".to_owned(), if broken == 1 { json!([1]) } else { Value::Null });
        let trust = Trust { holds, reason: "R", message: String::new() };
        apply(&mut it, &trust, at(1));
        if broken > 1 {
            prop_assert_eq!(is_tainted(&it), !holds);
            prop_assert!(!apply(&mut it, &trust, at(2)));
        }
    }
}
