//! Merging of snapshots.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use api::problem::ObjectName;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Completeness, Desired, Found, Merge, Snapshot, SourceKind, SourceObject};
use crate::observed::PodUid;

fn metadata(name: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Parses `origin name uid` as a pod, `origin name` as a ConfigMap.
fn found(text: &str) -> Found {
    let words: Vec<&str> = text.split(' ').collect();
    let object = match words[..] {
        [_, name, uid] => {
            let pod = Pod { metadata: metadata(&format!("{name}-n"), uid), ..Pod::default() };
            SourceObject::Pod(Arc::new(pod))
        }
        [_, name] => SourceObject::ConfigMap(Arc::new(ConfigMap {
            metadata: metadata(name, ""),
            ..ConfigMap::default()
        })),
        _ => panic!("{text}"),
    };
    let name = ObjectName {
        kind: object.kind().to_owned(),
        namespace: "default".to_owned(),
        name: words[1].to_owned(),
    };
    Found { name: Arc::new(name), object, origin: Arc::from(words[0]) }
}

fn snapshot(source: SourceKind, objects: &[&str]) -> Arc<Snapshot> {
    let objects = objects.iter().map(|text| found(text)).collect();
    let (waiting, problems) = (BTreeSet::new(), Vec::new());
    Arc::new(Snapshot {
        source,
        objects,
        waiting,
        problems,
        skipped: Vec::new(),
        completeness: Completeness::Complete,
    })
}

/// The merged objects in order with their origins, and the problems.
fn shown(desired: &Desired) -> (String, Vec<String>) {
    let owner = |kind: &str, name: &str| {
        let key =
            ObjectName { kind: kind.to_owned(), namespace: "default".to_owned(), name: name.to_owned() };
        desired.owners[&key].origin.clone()
    };
    let pods = desired.order.iter().map(|uid| {
        let name = desired.pods[uid].pod.metadata.name.as_deref().unwrap();
        format!("{name}@{}", owner("Pod", name))
    });
    let maps =
        desired.references.config_maps.keys().map(|(_, name)| format!("{name}@{}", owner("ConfigMap", name)));
    let problems = desired.problems.iter().map(ToString::to_string).collect();
    (pods.chain(maps).collect::<Vec<_>>().join(" "), problems)
}

#[test]
fn of_two_pods_with_one_name_the_second_is_rejected_with_an_event() {
    let mut merge = Merge::new([SourceKind::File]);
    let now =
        merge.put(snapshot(SourceKind::File, &["a.yaml web 1", "b.yaml web 1", "b.yaml db 2", "c.yaml db"]));
    let (objects, problems) = shown(&now);
    assert_eq!(objects, "web-n@a.yaml db-n@b.yaml db@c.yaml");
    let expected = "b.yaml: metadata.name: Pod default/web is already defined in a.yaml; rename or remove one of them; \
                    the one in a.yaml is used";
    assert_eq!(problems, [expected]);

    let now = merge.put(snapshot(SourceKind::File, &["b.yaml web 1"]));
    assert_eq!(shown(&now), ("web-n@b.yaml".to_owned(), vec![]));
}

#[test]
fn the_file_source_wins_over_other_sources() {
    let file = snapshot(SourceKind::File, &["/a.yaml web 1", "/a.yaml conf"]);
    let url = snapshot(SourceKind::Http, &["http://x web 2", "http://x conf", "http://x more"]);
    for order in [[&file, &url], [&url, &file]] {
        let mut merge = Merge::new([SourceKind::File, SourceKind::Http]);
        for snapshot in order {
            merge.put(snapshot.clone());
        }
        let (objects, problems) = shown(merge.desired());
        assert_eq!(objects, "web-n@/a.yaml conf@/a.yaml more@http://x");
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}

#[test]
fn first_of_two_pods_with_one_uid_wins() {
    let mut merge = Merge::new([SourceKind::File]);
    let now = merge.put(snapshot(SourceKind::File, &["a.yaml web 1", "b.yaml db 1"]));
    let (objects, problems) = shown(&now);
    assert_eq!(objects, "web-n@a.yaml");
    let expected =
        "b.yaml: metadata.uid: the pod web-n already has the UID 1; remove metadata.uid from one of them";
    assert_eq!(problems, [expected]);
}

#[test]
fn desired_pods_are_complete_after_all_sources_were_read() {
    let completeness = |merge: &Merge| merge.desired().completeness;
    assert_eq!(completeness(&Merge::new([])), Completeness::Complete);
    let mut merge = Merge::new([SourceKind::File, SourceKind::Http]);
    assert_eq!(completeness(&merge), Completeness::Incomplete);
    merge.put(snapshot(SourceKind::File, &["a web 1"]));
    assert_eq!(completeness(&merge), Completeness::Incomplete);
    assert_eq!(merge.desired().pods.len(), 1, "what is known may start");
    let url = snapshot(SourceKind::Http, &["u db 2"]);
    merge.put(Arc::new(Snapshot { completeness: Completeness::Incomplete, ..(*url).clone() }));
    assert_eq!(completeness(&merge), Completeness::Incomplete);
    merge.put(url);
    assert_eq!(completeness(&merge), Completeness::Complete);
}

#[test]
fn waiting_pod_is_desired_but_not_started() {
    let mut merge = Merge::new([SourceKind::Api]);
    let waits = |waiting: &[&str]| {
        let waiting = waiting.iter().map(|uid| PodUid::new(uid)).collect();
        Arc::new(Snapshot { waiting, ..(*snapshot(SourceKind::Api, &["m web 1"])).clone() })
    };
    merge.put(waits(&["2"]));
    let are_unwanted = |merge: &Merge| {
        ["1", "2", "3"].map(|uid| merge.desired().is_unwanted(&PodUid::new(uid), Some(SourceKind::Api)))
    };
    assert_eq!(are_unwanted(&merge), [false, false, true]);
    assert_eq!(merge.desired().pods.len(), 1);
    merge.put(waits(&[]));
    assert_eq!(are_unwanted(&merge), [false, true, true]);
}

#[test]
fn merge_returns_the_same_allocation_for_unchanged_pods() {
    let mut merge = Merge::new([SourceKind::File]);
    let first = snapshot(SourceKind::File, &["a web 1", "a db 2", "a conf"]);
    let before = merge.put(first.clone());
    assert!(Arc::ptr_eq(&before, &merge.put(first.clone())), "all of it");

    let mut objects = first.objects.clone();
    objects[1] = found("a db 2");
    let after = merge.put(Arc::new(Snapshot { objects, ..(*first).clone() }));
    let same = |uid: &str| {
        let uid = PodUid::new(uid);
        Arc::ptr_eq(&before.pods[&uid], &after.pods[&uid])
    };
    assert!(same("1") && !same("2"));
    assert!(Arc::ptr_eq(&before.references, &after.references));
}

#[test]
fn config_maps_of_two_sources_are_separate_and_pods_with_one_name_conflict() {
    let mut merge = Merge::new([SourceKind::File, SourceKind::Api]);
    merge.put(snapshot(SourceKind::File, &["a web 1", "a conf"]));
    let now = merge.put(snapshot(SourceKind::Api, &["api db 2", "api conf"]));
    assert_eq!(now.problems, []);
    let of = |source: SourceKind| now.references_of(source).config_map("default", "conf").cloned().unwrap();
    assert!(!Arc::ptr_eq(&of(SourceKind::File), &of(SourceKind::Api)));
    // Of two pods with the same name only one is desired; the other is a name conflict.
    let now = merge.put(snapshot(SourceKind::Api, &["api web 3"]));
    assert_eq!((shown(&now).0.as_str(), now.problems.len()), ("web-n@a conf@a", 0));
    let reported: Vec<(&str, &str)> =
        now.name_conflicts.iter().map(|(uid, (_, origin))| (uid.as_str(), &**origin)).collect();
    assert_eq!(reported, [("3", "a")]);
    let now = merge.put(snapshot(SourceKind::File, &["a conf"]));
    assert_eq!((shown(&now).0.as_str(), now.name_conflicts.len()), ("web-n@api conf@a", 0));
}

#[test]
fn pods_of_unconfigured_sources_keep_running() {
    let mut merge = Merge::new([SourceKind::File]);
    merge.put(snapshot(SourceKind::File, &["a web 1"]));
    let gone = PodUid::new("gone");
    let unwanted = SourceKind::ALL.map(|source| merge.desired().is_unwanted(&gone, Some(source)));
    assert_eq!(unwanted, [false, true, false, false]);
    assert!(
        merge.desired().is_unwanted(&gone, None),
        "whose it was is not known, and all that are asked have spoken"
    );
}

#[test]
fn pod_is_removed_only_after_its_source_was_read() {
    let mut merge = Merge::new([SourceKind::File, SourceKind::Api]);
    let gone = PodUid::new("gone");
    let unwanted = |merge: &Merge| {
        [Some(SourceKind::File), Some(SourceKind::Api), None]
            .map(|source| merge.desired().is_unwanted(&gone, source))
    };
    assert_eq!(unwanted(&merge), [false; 3]);
    merge.put(snapshot(SourceKind::File, &["a web 1"]));
    assert_eq!(unwanted(&merge), [true, false, false]);
    merge.put(snapshot(SourceKind::Api, &["api db 2"]));
    assert_eq!(unwanted(&merge), [true; 3]);
    assert_eq!(
        Merge::new([SourceKind::File]).desired().api_completeness,
        Completeness::Complete,
        "there is none"
    );
}
