//! Cluster membership, the Node object and its status, one case per line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub mod fake;
mod following;
mod leases;
mod registering;
pub mod stock;

use std::time::Duration;

use apiserver::tasks::Tasks;
use client::Delta;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::lease::Outage;
use super::members_file;
use super::membership::{Change, Membership, PartialNode, RETURN_GRACE, own_node};
use super::node;
use super::{Arc, ClusterAccess, EventReporter, NodeReflector, Outbox, connect, watch};
use crate::network::Members;

fn line(name: &str, uid: &str, second: u8, ranges: &[&str]) -> PartialNode {
    let line = json!({
        "metadata": {"name": name, "uid": uid, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "labels": {}},
        "spec": {"podCIDR": ranges.first(), "podCIDRs": ranges, "taints": []},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": name}, {"type": "ExternalIP", "address": "198.51.100.1"},
                {"type": "InternalIP", "address": format!("192.0.2.{second}")}, {"type": "InternalIP", "address": "x"},
            ],
            "images": [{"names": ["a"]}],
        },
    });
    serde_json::from_value(line).unwrap()
}

fn own() -> PartialNode {
    line("n1", "u1", 5, &["10.244.1.0/24"])
}

fn all(lines: Vec<PartialNode>) -> Delta<PartialNode> {
    Delta::Replaced(lines, "7".to_owned())
}

fn names(members: &Members) -> Vec<String> {
    let age = |is_older| if is_older { "<" } else { "" };
    members.others.iter().map(|one| format!("{}{}", age(one.is_older), one.name)).collect()
}

#[test]
fn members_are_published_oldest_first_with_the_fields_for_routes() {
    let (mut membership, now) = (Membership::new("n1"), Instant::now());
    let nodes = vec![
        own(),
        line("n3", "u3", 9, &["10.244.3.0/24", "fd00:3::/64"]),
        line("n0", "u0", 5, &[]),
        line("n2", "u2", 1, &["10.244.2.9/24", "?"]),
    ];
    membership.apply(all(nodes));
    let members = membership.members(None, now).unwrap();
    assert_eq!(names(&members), ["<n2", "<n0", "n3"]);
    assert_eq!(members.own, ["10.244.1.0/24".parse().unwrap()]);
    assert_eq!(members.others[0].ranges, ["10.244.2.0/24".parse().unwrap()]);
    assert_eq!(members.others[0].addresses, ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(members.others[2].ranges.len(), 2);
    // A Node with only one of the two fields.
    let old: PartialNode =
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"podCIDR": "10.9.0.0/24"}}))
            .unwrap();
    membership.apply(Delta::Applied(old));
    assert_eq!(membership.members(None, now).unwrap().own, ["10.9.0.0/24".parse().unwrap()]);
}

#[test]
fn heartbeats_of_other_nodes_are_not_published() {
    let mut membership = Membership::new("n1");
    assert_eq!(membership.apply(all(vec![own()])), Change::OfOwn);
    let other = line("n2", "u2", 1, &["10.244.2.0/24"]);
    assert_eq!(membership.apply(Delta::Applied(other.clone())), Change::OfOthers);
    assert_eq!(membership.apply(Delta::Applied(other)), Change::None);
    assert_eq!(membership.apply(Delta::Applied(line("n2", "u2", 1, &["10.244.3.0/24"]))), Change::OfOthers);
    assert_eq!(membership.apply(Delta::Applied(own())), Change::None);
    assert_eq!(membership.apply(Delta::Deleted(own())), Change::OfOwn);
    assert_eq!(membership.len(), 1);
}

#[test]
fn version_and_zone_of_the_own_node_are_read_from_events_and_lists() {
    let node = |name: &str, version: &str| -> PartialNode {
        let labels = json!({"topology.kubernetes.io/zone": "west", "other": "a"});
        let metadata = json!({"name": name, "resourceVersion": version, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    for (sender, expected) in [
        (Delta::Applied(node("n1", "8")), Some(("8", "west"))),
        (Delta::Applied(node("n2", "8")), None),
        (all(vec![node("n2", "8"), node("n1", "9")]), Some(("9", "west"))),
        (all(vec![node("n2", "8")]), None),
        (Delta::Deleted(node("n1", "8")), None),
    ] {
        assert_eq!(own_node(&sender, "n1"), expected, "{sender:?}");
    }
    let without_labels = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    assert_eq!(own_node(&Delta::Applied(without_labels), "n1"), Some(("", "")));
}

#[test]
fn an_empty_node_list_removes_no_member() {
    let (mut membership, now) = (Membership::new("n1"), Instant::now());
    let [n2, n3] = [line("n2", "u2", 1, &["10.244.2.0/24"]), line("n3", "u3", 9, &["10.244.3.0/24"])];
    membership.apply(all(vec![own(), n2.clone(), n3.clone()]));
    let known = membership.members(None, now).unwrap();
    // The store was restored empty.
    membership.apply(all(Vec::new()));
    assert!(!membership.contains("n1") && membership.members(Some(&known), now).is_none());
    // This node has registered again with a new UID; the others have not.
    let registered_again = line("n1", "u9", 30, &["10.244.1.0/24"]);
    membership.apply(Delta::Applied(registered_again));
    let kept = membership.members(Some(&known), now).unwrap();
    assert_eq!(names(&kept), ["n2", "n3"]);
    assert_eq!(kept.others[0].ranges, known.others[0].ranges);
    // A new node has the CIDR of a missing one; another missing node returns and is deleted.
    membership.apply(Delta::Applied(line("n4", "u4", 31, &["10.244.2.128/25"])));
    membership.apply(Delta::Applied(n3.clone()));
    let kept = membership.members(Some(&kept), now).unwrap();
    assert_eq!(names(&kept), ["<n3", "n4"]);
    membership.apply(Delta::Deleted(n3));
    assert_eq!(names(&membership.members(Some(&kept), now).unwrap()), ["n4"]);
    // A node that does not return is forgotten after a grace period.
    membership.apply(Delta::Deleted(line("n4", "u4", 31, &[])));
    let (before, later) = (Some(&known), now + RETURN_GRACE);
    assert_eq!(names(&membership.members(before, later - Duration::from_secs(1)).unwrap()), ["n2"]);
    assert!(membership.members(before, later).unwrap().others.is_empty());
}

#[test]
fn list_of_only_the_own_node_keeps_known_peers() {
    let (mut membership, now) = (Membership::new("n1"), Instant::now());
    membership.apply(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24"])]));
    let known = membership.members(None, now).unwrap();
    membership.set_sees_all(false);
    membership.apply(all(vec![own()]));
    assert_eq!(names(&membership.members(Some(&known), now + RETURN_GRACE).unwrap()), ["<n2"]);
    membership.apply(all(Vec::new()));
    assert!(!membership.contains("n1"));
}

#[test]
fn deleted_node_leaves_the_membership() {
    let (mut membership, now) = (Membership::new("n1"), Instant::now());
    membership.apply(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24"])]));
    let known = membership.members(None, now).unwrap();
    membership.apply(Delta::Deleted(line("n2", "u2", 1, &[])));
    assert!(membership.members(Some(&known), now).unwrap().others.is_empty());
    membership.apply(Delta::Deleted(own()));
    assert!(membership.members(Some(&known), now).is_none());
}

#[test]
fn members_file_round_trips() {
    let mut membership = Membership::new("n1");
    membership.apply(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24", "fd00::/64"])]));
    let members = membership.members(None, Instant::now()).unwrap();
    let text = members_file::text(&members);
    assert_eq!(members_file::members(&serde_json::from_str(&text).unwrap()), Some(members));
    for nonsense in [
        json!({}),
        json!([]),
        json!({"own": [], "others": [{"name": "a"}]}),
        json!({"own": ["x"], "others": []}),
    ] {
        assert_eq!(members_file::members(&nonsense), None, "{nonsense}");
    }
}

#[tokio::test]
async fn published_members_are_stored_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let kept = members_file::MembersFile::under(folder.path());
    assert_eq!(kept.read().await, None);
    let (sender, receiver) = tokio::sync::watch::channel(None);
    let writing = tokio::spawn(kept.clone().write(receiver));
    let mut membership = Membership::new("n1");
    membership.apply(all(vec![own()]));
    let members = membership.members(None, Instant::now()).unwrap();
    sender.send_replace(Some(std::sync::Arc::new(members.clone())));
    drop(sender);
    writing.await.unwrap();
    assert_eq!(kept.read().await, Some(members));
    std::fs::write(folder.path().join("cluster/members.json"), "{").unwrap();
    assert_eq!(kept.read().await, None);
}

pub fn shown(ready: &str, heartbeat: &str) -> Map<String, Value> {
    let condition = json!({
        "type": "Ready", "status": ready, "reason": "R", "message": "m", "lastHeartbeatTime": heartbeat, "lastTransitionTime": "t",
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "uid": "n1", "creationTimestamp": "t", "labels": {"kubernetes.io/os": "linux", "tier": "x"}},
        "spec": {"taints": [{"key": "k", "value": "", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "2"}, "conditions": [condition], "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        },
    });
    node.as_object().unwrap().clone()
}

#[test]
fn node_object_contains_status_labels_and_requested_cidrs() {
    let made =
        node::new_node(&shown("True", "h"), &["10.9.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()]);
    assert_eq!(made["metadata"], json!({"name": "n1", "labels": {"kubernetes.io/os": "linux", "tier": "x"}}));
    assert_eq!(
        (&made["spec"]["podCIDR"], &made["spec"]["podCIDRs"]),
        (&json!("10.9.0.0/24"), &json!(["10.9.0.0/24", "fd00::/64"]))
    );
    assert_eq!(made["spec"]["taints"][0]["key"], "k");
    assert_eq!(made["status"]["capacity"]["cpu"], "2");
    assert_eq!(node::new_node(&shown("True", "h"), &[])["spec"].get("podCIDR"), None);
    assert!(node::is_complete(&shown("True", "h")) && !node::is_complete(&Map::new()));
}

#[test]
fn kubelet_labels_are_restored_and_others_are_kept() {
    let shown = shown("True", "h");
    for (there, expected) in [
        (json!({"kubernetes.io/os": "linux", "tier": "y"}), None),
        (json!({"kubernetes.io/os": "other", "more": "z"}), Some(json!({"kubernetes.io/os": "linux"}))),
        (json!({}), Some(json!({"kubernetes.io/os": "linux"}))),
    ] {
        let expected = expected.map(|labels| json!({"metadata": {"labels": labels}}));
        assert_eq!(
            node::metadata_patch(&shown, &json!({"metadata": {"labels": there}})),
            expected,
            "{there}"
        );
    }
}

#[test]
fn node_status_is_written_on_change_or_when_due() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let there = Value::Object(shown("True", "before"));
    let fields = |patch: Option<Value>| {
        patch.map(|patch| patch["status"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "))
    };
    // Only the heartbeat time differs.
    assert_eq!(node::status_patch(&shown("True", "later"), &there, false, now), None);
    let due = node::status_patch(&shown("True", "later"), &there, true, now).unwrap();
    assert_eq!(due["status"]["conditions"][0]["lastHeartbeatTime"], "2026-01-01T00:05:00Z");
    assert_eq!(fields(Some(due)), Some("conditions".to_owned()));
    assert_eq!(
        fields(node::status_patch(&shown("False", "later"), &there, false, now)),
        Some("conditions".to_owned())
    );
    let mut moved = shown("True", "later");
    moved["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.0.2.9"}]);
    let patch = node::status_patch(&moved, &there, false, now).unwrap();
    assert_eq!(
        patch["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "192.0.2.9"}, {"$patch": "replace"}])
    );
    // A stock server keeps the directive as an element if the Node has no addresses yet.
    let mut bare = there.clone();
    bare["status"]["addresses"] = Value::Null;
    let patch = node::status_patch(&moved, &bare, false, now).unwrap();
    assert_eq!(patch["status"]["addresses"], json!([{"type": "InternalIP", "address": "192.0.2.9"}]));
    // Conditions of other components are ignored.
    let mut more = there.clone();
    more["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "Other", "status": "True"}));
    assert_eq!(node::status_patch(&shown("True", "later"), &more, false, now), None);
}

#[tokio::test]
async fn an_invalid_kubeconfig_and_its_recovery_are_reported() {
    let good = fake::known("http://127.0.0.1:1");
    let bad = ClusterAccess { authority: b"nonsense".to_vec(), ..good.clone() };
    let (access, ways) = watch::channel(Some(bad));
    let outbox = Outbox::new();
    let mut tasks = Tasks::default();
    let apis = connect(ways, EventReporter::new("n1", outbox.clone()), &mut tasks);
    let reasons = async || outbox.take().await.notes.into_iter().map(|note| note.reason).collect::<Vec<_>>();
    assert_eq!(reasons().await, ["ClusterAccessInvalid"]);
    access.send_replace(None);
    access.send_replace(Some(good));
    assert_eq!(reasons().await, ["ClusterAccessRestored"]);
    assert!(apis.borrow().is_some());
}

#[tokio::test]
async fn an_event_reports_that_the_api_server_lists_other_nodes_again() {
    let (server, api) = fake::Fake::start().await;
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "n1"}}]});
    server.always_respond("fieldSelector", 200, list.clone());
    server.respond(403, None);
    server.respond(200, Some(list));
    let (access, apis) = watch::channel(Some(api));
    let (folder, outbox) = (tempfile::tempdir().unwrap(), Outbox::new());
    let reporter = || EventReporter::new("n1", outbox.clone());
    let listener = NodeReflector {
        node: "n1".to_owned(),
        reporter: reporter(),
        visibility_reporter: reporter(),
        list_all_retry: Duration::from_millis(10),
        members_sender: watch::channel(None).0,
        missing: Arc::default(),
        version: watch::channel(String::new()).0,
        zone: watch::channel(String::new()).0,
    };
    tokio::spawn(listener.run(apis, members_file::MembersFile::under(folder.path())));
    let mut reasons = Vec::new();
    while reasons.len() < 2 {
        reasons.extend(outbox.take().await.notes.into_iter().map(|note| note.reason));
    }
    assert_eq!(reasons, ["NodesNotListed", "NodesListed"]);
    drop(access);
}

#[test]
fn a_condition_keeps_its_transition_time_from_the_node() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let since = |there: Value| {
        let mut node = Value::Object(shown("True", "before"));
        node["status"]["conditions"] = there;
        let patch = node::status_patch(&shown("True", "later"), &node, true, now).unwrap();
        patch["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "s"}]);
    // A node whose status was Unknown becomes ready at the present time. If it was ready, the transition time stays.
    assert_eq!(since(ready("Unknown")), "2026-01-01T00:05:00Z");
    assert_eq!(since(ready("True")), "s");
    assert_eq!(since(json!([{"type": "Other", "status": "True", "lastTransitionTime": "s"}])), "t");
    assert_eq!(since(json!([{"type": "Ready", "status": "True"}])), "t");
}

#[test]
fn reconnection_after_an_outage_is_reported() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut outage = Outage::default();
    assert_eq!(outage.recovers(at(0)), None, "it was there");
    outage.fails(at(10));
    assert_eq!(outage.recovers(at(11)), None, "a moment");
    for second in [20, 21, 83] {
        outage.fails(at(second));
    }
    assert_eq!(outage.recovers(at(93)), Some(Duration::from_secs(73)));
    assert_eq!(outage.recovers(at(103)), None, "it is reported once");
}

#[test]
fn extended_resources_of_the_capacity_are_copied_to_allocatable_and_removed_with_it() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let mut shown = shown("True", "later");
    shown["status"]["allocatable"] = json!({"cpu": "1"});
    let patched = |capacity: Value, allocatable: Value| {
        let mut there = Value::Object(shown.clone());
        there["status"]["capacity"] = capacity;
        there["status"]["allocatable"] = allocatable;
        let mut patch = node::status_patch(&shown, &there, false, now)?;
        patch["status"].as_object_mut().unwrap().remove("conditions");
        Some(patch["status"].take())
    };
    let (two, dongle) = (json!({"cpu": "2"}), json!({"cpu": "2", "example.com/dongle": "4"}));
    let copied = json!({"cpu": "1", "example.com/dongle": "4"});
    for (capacity, allocatable, expected) in [
        (&two, json!({"cpu": "1"}), None),
        (&dongle, json!({"cpu": "1"}), Some(json!({"allocatable": {"example.com/dongle": "4"}}))),
        (&dongle, copied.clone(), None),
        (&two, copied, Some(json!({"allocatable": {"example.com/dongle": null}}))),
        (
            &json!({"cpu": "64"}),
            json!({"cpu": "64"}),
            Some(json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}})),
        ),
    ] {
        assert_eq!(patched(capacity.clone(), allocatable), expected, "{capacity}");
    }
    let names = |status: Value| node::extended(&json!({"status": status})).into_keys().collect::<Vec<_>>();
    let allocatable =
        json!({"cpu": "1", "example.com/dongle": "4", "kubernetes.io/x": "1", "example.com/bad": "?"});
    assert_eq!(names(json!({"capacity": dongle, "allocatable": allocatable})), ["example.com/dongle"]);
}
