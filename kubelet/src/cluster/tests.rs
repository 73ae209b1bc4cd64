//! What is heard and what is written, a row a case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub mod fake;
mod following;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::follow::{Event, Told, read};
use super::kept;
use super::lease::Absence;
use super::node;
use super::roster::{Line, News, RETURN, Roster, is_unheard};
use super::{Arc, Known, Listener, Outbox, Voice, connect, watch};
use crate::network::Members;

fn line(name: &str, uid: &str, second: u8, ranges: &[&str]) -> Line {
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

fn own() -> Line {
    line("n1", "u1", 5, &["10.244.1.0/24"])
}

fn all(lines: Vec<Line>) -> Told<Line> {
    Told::All(lines, "7".to_owned())
}

fn names(members: &Members) -> Vec<String> {
    let age = |is_older| if is_older { "<" } else { "" };
    members.others.iter().map(|one| format!("{}{}", age(one.is_older), one.name)).collect()
}

#[test]
fn others_are_told_the_oldest_first_with_what_routes_are_laid_by() {
    let (mut roster, now) = (Roster::new("n1"), Instant::now());
    let nodes = vec![
        own(),
        line("n3", "u3", 9, &["10.244.3.0/24", "fd00:3::/64"]),
        line("n0", "u0", 5, &[]),
        line("n2", "u2", 1, &["10.244.2.9/24", "?"]),
    ];
    roster.hear(all(nodes));
    let members = roster.members(None, now).unwrap();
    assert_eq!(names(&members), ["<n2", "<n0", "n3"]);
    assert_eq!(members.own, ["10.244.1.0/24".parse().unwrap()]);
    assert_eq!(members.others[0].ranges, ["10.244.2.0/24".parse().unwrap()]);
    assert_eq!(members.others[0].addresses, ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(members.others[2].ranges.len(), 2);
    // Only one of the two fields.
    let old: Line =
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"podCIDR": "10.9.0.0/24"}}))
            .unwrap();
    roster.hear(Told::Put(old));
    assert_eq!(roster.members(None, now).unwrap().own, ["10.9.0.0/24".parse().unwrap()]);
}

#[test]
fn heartbeats_of_others_are_no_news() {
    let mut roster = Roster::new("n1");
    assert_eq!(roster.hear(all(vec![own()])), News::OfOwn);
    let other = line("n2", "u2", 1, &["10.244.2.0/24"]);
    assert_eq!(roster.hear(Told::Put(other.clone())), News::OfOthers);
    assert_eq!(roster.hear(Told::Put(other)), News::None);
    assert_eq!(roster.hear(Told::Put(line("n2", "u2", 1, &["10.244.3.0/24"]))), News::OfOthers);
    assert_eq!(roster.hear(Told::Put(own())), News::None);
    assert_eq!(roster.hear(Told::Gone(own())), News::OfOwn);
    assert_eq!(roster.len(), 1);
}

#[test]
fn a_master_that_does_not_hear_the_node_is_heard_to_say_so() {
    let node = |name: &str, status: &str| -> Line {
        let conditions =
            json!([{"type": "ReadonlyFilesystem", "status": "Unknown"}, {"type": "Ready", "status": status}]);
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": conditions}}))
            .unwrap()
    };
    for (told, expected) in [
        (Told::Put(node("n1", "Unknown")), Some(true)),
        (Told::Put(node("n1", "False")), Some(false)),
        (Told::Put(node("n2", "Unknown")), None),
        (all(vec![node("n2", "True"), node("n1", "Unknown")]), Some(true)),
        (all(vec![own()]), Some(false)),
        (Told::Gone(node("n1", "Unknown")), None),
    ] {
        assert_eq!(is_unheard(&told, "n1"), expected, "{told:?}");
    }
}

#[test]
fn a_master_that_has_lost_its_nodes_takes_nobody_away() {
    let (mut roster, now) = (Roster::new("n1"), Instant::now());
    let [n2, n3] = [line("n2", "u2", 1, &["10.244.2.0/24"]), line("n3", "u3", 9, &["10.244.3.0/24"])];
    roster.hear(all(vec![own(), n2.clone(), n3.clone()]));
    let known = roster.members(None, now).unwrap();
    // It was restored empty.
    roster.hear(all(Vec::new()));
    assert!(!roster.has("n1") && roster.members(Some(&known), now).is_none());
    // This node is there again, as a new one, and the others are not yet.
    let again = line("n1", "u9", 30, &["10.244.1.0/24"]);
    roster.hear(Told::Put(again));
    let kept = roster.members(Some(&known), now).unwrap();
    assert_eq!(names(&kept), ["n2", "n3"]);
    assert_eq!(kept.others[0].ranges, known.others[0].ranges);
    // Somebody has what one of them had, another comes back and is deleted.
    roster.hear(Told::Put(line("n4", "u4", 31, &["10.244.2.128/25"])));
    roster.hear(Told::Put(n3.clone()));
    let kept = roster.members(Some(&kept), now).unwrap();
    assert_eq!(names(&kept), ["<n3", "n4"]);
    roster.hear(Told::Gone(n3));
    assert_eq!(names(&roster.members(Some(&kept), now).unwrap()), ["n4"]);
    // And who does not come back is forgotten.
    roster.hear(Told::Gone(line("n4", "u4", 31, &[])));
    let (before, later) = (Some(&known), now + RETURN);
    assert_eq!(names(&roster.members(before, later - Duration::from_secs(1)).unwrap()), ["n2"]);
    assert!(roster.members(before, later).unwrap().others.is_empty());
}

#[test]
fn a_server_that_shows_the_own_node_alone_says_nothing_of_others() {
    let (mut roster, now) = (Roster::new("n1"), Instant::now());
    roster.hear(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24"])]));
    let known = roster.members(None, now).unwrap();
    roster.sees(false);
    roster.hear(all(vec![own()]));
    assert_eq!(names(&roster.members(Some(&known), now + RETURN).unwrap()), ["<n2"]);
    roster.hear(all(Vec::new()));
    assert!(!roster.has("n1"));
}

#[test]
fn a_node_that_goes_is_gone() {
    let (mut roster, now) = (Roster::new("n1"), Instant::now());
    roster.hear(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24"])]));
    let known = roster.members(None, now).unwrap();
    roster.hear(Told::Gone(line("n2", "u2", 1, &[])));
    assert!(roster.members(Some(&known), now).unwrap().others.is_empty());
    roster.hear(Told::Gone(own()));
    assert!(roster.members(Some(&known), now).is_none());
}

#[test]
fn what_is_kept_reads_as_it_was_written() {
    let mut roster = Roster::new("n1");
    roster.hear(all(vec![own(), line("n2", "u2", 1, &["10.244.2.0/24", "fd00::/64"])]));
    let members = roster.members(None, Instant::now()).unwrap();
    let text = kept::text(&members);
    assert_eq!(kept::members(&serde_json::from_str(&text).unwrap()), Some(members));
    for nonsense in [
        json!({}),
        json!([]),
        json!({"own": [], "others": [{"name": "a"}]}),
        json!({"own": ["x"], "others": []}),
    ] {
        assert_eq!(kept::members(&nonsense), None, "{nonsense}");
    }
}

#[tokio::test]
async fn what_is_told_is_on_the_disk_a_moment_later() {
    let folder = tempfile::tempdir().unwrap();
    let kept = kept::Kept::under(folder.path());
    assert_eq!(kept.read().await, None);
    let (told, heard) = tokio::sync::watch::channel(None);
    let writing = tokio::spawn(kept.clone().write(heard));
    let mut roster = Roster::new("n1");
    roster.hear(all(vec![own()]));
    let members = roster.members(None, Instant::now()).unwrap();
    told.send_replace(Some(std::sync::Arc::new(members.clone())));
    drop(told);
    writing.await.unwrap();
    assert_eq!(kept.read().await, Some(members));
    std::fs::write(folder.path().join("cluster/members.json"), "{").unwrap();
    assert_eq!(kept.read().await, None);
}

#[test]
fn events_of_a_watch() {
    let put =
        |kind: &str| json!({"type": kind, "object": {"metadata": {"name": "a", "resourceVersion": "7"}}});
    let a: Line = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    for (event, expected) in [
        (put("ADDED"), Ok(Event::Told(Told::Put(a.clone()), "7".to_owned()))),
        (put("MODIFIED"), Ok(Event::Told(Told::Put(a.clone()), "7".to_owned()))),
        (put("DELETED"), Ok(Event::Told(Told::Gone(a), "7".to_owned()))),
        (put("BOOKMARK"), Ok(Event::Bookmark("7".to_owned()))),
        (json!({"type": "ERROR", "object": {"code": 410, "metadata": {}}}), Ok(Event::TooOld)),
        (json!({"type": "ERROR", "object": {"code": 500, "message": "m"}}), Err("says m")),
        (json!({"type": "OTHER", "object": {}}), Err("of the type \"OTHER\"")),
        (json!({"metadata": {}}), Err("does not read")),
    ] {
        let found = read::<Line>(event.to_string().as_bytes());
        match expected {
            Ok(expected) => assert_eq!(found, Ok(expected), "{event}"),
            Err(words) => assert!(found.is_err_and(|why| why.contains(words)), "{event}"),
        }
    }
}

fn shown(ready: &str, heartbeat: &str) -> Map<String, Value> {
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
fn a_node_is_made_of_what_is_shown_and_of_what_it_asks_for() {
    let made =
        node::made(&shown("True", "h"), &["10.9.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()]);
    assert_eq!(made["metadata"], json!({"name": "n1", "labels": {"kubernetes.io/os": "linux", "tier": "x"}}));
    assert_eq!(
        (&made["spec"]["podCIDR"], &made["spec"]["podCIDRs"]),
        (&json!("10.9.0.0/24"), &json!(["10.9.0.0/24", "fd00::/64"]))
    );
    assert_eq!(made["spec"]["taints"][0]["key"], "k");
    assert_eq!(made["status"]["capacity"]["cpu"], "2");
    assert_eq!(node::made(&shown("True", "h"), &[])["spec"].get("podCIDR"), None);
    assert!(node::is_whole(&shown("True", "h")) && !node::is_whole(&Map::new()));
}

#[test]
fn labels_of_the_kubelet_are_set_again_and_others_are_the_clusters() {
    let shown = shown("True", "h");
    for (there, expected) in [
        (json!({"kubernetes.io/os": "linux", "tier": "y"}), None),
        (json!({"kubernetes.io/os": "other", "more": "z"}), Some(json!({"kubernetes.io/os": "linux"}))),
        (json!({}), Some(json!({"kubernetes.io/os": "linux"}))),
    ] {
        let expected = expected.map(|labels| json!({"metadata": {"labels": labels}}));
        assert_eq!(node::relabelled(&shown, &json!({"metadata": {"labels": there}})), expected, "{there}");
    }
}

#[test]
fn the_status_is_written_when_it_has_changed_or_is_due() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let there = Value::Object(shown("True", "before"));
    let fields = |patch: Option<Value>| {
        patch.map(|patch| patch["status"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "))
    };
    // It was looked at again, and nothing else.
    assert_eq!(node::restated(&shown("True", "later"), &there, false, now), None);
    let due = node::restated(&shown("True", "later"), &there, true, now).unwrap();
    assert_eq!(due["status"]["conditions"][0]["lastHeartbeatTime"], "2026-01-01T00:05:00Z");
    assert_eq!(fields(Some(due)), Some("conditions".to_owned()));
    assert_eq!(
        fields(node::restated(&shown("False", "later"), &there, false, now)),
        Some("conditions".to_owned())
    );
    let mut moved = shown("True", "later");
    moved["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.0.2.9"}]);
    let patch = node::restated(&moved, &there, false, now).unwrap();
    assert_eq!(
        patch["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "192.0.2.9"}, {"$patch": "replace"}])
    );
    // Conditions of others are nothing that differs.
    let mut more = there.clone();
    more["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "Other", "status": "True"}));
    assert_eq!(node::restated(&shown("True", "later"), &more, false, now), None);
}

#[tokio::test]
async fn a_way_that_makes_no_sense_is_told_and_that_it_does_again() {
    let good = fake::known("http://127.0.0.1:1");
    let bad = Known { authority: b"nonsense".to_vec(), ..good.clone() };
    let (way, ways) = watch::channel(Some(bad));
    let outbox = Outbox::new();
    let apis = connect(ways, Voice::new("n1", outbox.clone()));
    let told = async || outbox.take().await.notes.into_iter().map(|note| note.reason).collect::<Vec<_>>();
    assert_eq!(told().await, ["ClusterTrouble"]);
    way.send_replace(None);
    way.send_replace(Some(good));
    assert_eq!(told().await, ["ClusterTroubleOver"]);
    assert!(apis.borrow().is_some());
}

#[tokio::test]
async fn a_server_that_shows_other_nodes_after_all_is_told() {
    let (server, api) = fake::Fake::start().await;
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "n1"}}]});
    server.always_says("fieldSelector", 200, list.clone());
    server.says(403, None);
    server.says(200, Some(list));
    let (way, apis) = watch::channel(Some(api));
    let (folder, outbox) = (tempfile::tempdir().unwrap(), Outbox::new());
    let voice = || Voice::new("n1", outbox.clone());
    let listener = Listener {
        node: "n1".to_owned(),
        voice: voice(),
        again: voice(),
        all_again: Duration::from_millis(10),
        told: watch::channel(None).0,
        missing: Arc::default(),
        unheard: watch::channel(false).0,
    };
    tokio::spawn(listener.run(apis, kept::Kept::under(folder.path())));
    let mut reasons = Vec::new();
    while reasons.len() < 2 {
        reasons.extend(outbox.take().await.notes.into_iter().map(|note| note.reason));
    }
    assert_eq!(reasons, ["NodesNotShown", "NodesShown"]);
    drop(way);
}

#[test]
fn since_when_a_condition_is_so_is_what_stands_in_the_node() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let since = |there: Value| {
        let mut node = Value::Object(shown("True", "before"));
        node["status"]["conditions"] = there;
        let patch = node::restated(&shown("True", "later"), &node, true, now).unwrap();
        patch["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    let told = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "s"}]);
    // A node that was not heard of is ready since now, whatever it thinks, and stays so.
    assert_eq!(since(told("Unknown")), "2026-01-01T00:05:00Z");
    assert_eq!(since(told("True")), "s");
    assert_eq!(since(json!([{"type": "Other", "status": "True", "lastTransitionTime": "s"}])), "t");
    assert_eq!(since(json!([{"type": "Ready", "status": "True"}])), "t");
}

#[test]
fn a_master_that_was_away_for_more_than_a_moment_is_welcomed() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut absence = Absence::default();
    assert_eq!(absence.ends(at(0)), None, "it was there");
    absence.goes_on(at(10));
    assert_eq!(absence.ends(at(11)), None, "a moment");
    for second in [20, 21, 83] {
        absence.goes_on(at(second));
    }
    assert_eq!(absence.ends(at(93)), Some(Duration::from_secs(73)));
    assert_eq!(absence.ends(at(103)), None, "it is told once");
}
