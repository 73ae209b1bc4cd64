//! Pod identity and last good versions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::identity::{self, HASH, SEEN, SOURCE, place, uid};
use super::manifest::{Known, Manifest, ManifestContext};
use crate::desired::{SourceKind, SourceObject};
use crate::observed::Timestamp;

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);
const LATER: Timestamp = Timestamp::constant(1_700_000_060, 0);

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: main\n    image: v{image}\n"
    )
}

fn decoded(text: &str) -> Pod {
    match api::decode(text.as_bytes()).objects.remove(0) {
        api::object::Object::Pod(pod) => *pod,
        other => panic!("{other:?}"),
    }
}

fn placed(text: &str, known: Option<&Arc<Pod>>, now: Timestamp) -> Arc<Pod> {
    place(decoded(text), "Node1", SourceKind::File, known, now).unwrap()
}

#[test]
fn static_pod_name_has_the_node_suffix_and_annotations() {
    let pod = placed(&pod("web", "a"), None, NOW);
    let metadata = &pod.metadata;
    assert_eq!(metadata.name.as_deref(), Some("web-node1"));
    assert_eq!(metadata.namespace.as_deref(), Some("default"));
    assert_eq!(metadata.uid.as_deref(), Some(uid("Node1", SourceKind::File, "default", "web").as_str()));
    let annotations = metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[SOURCE], "file");
    assert_eq!(annotations[SEEN], "2023-11-14T22:13:20Z");
    assert_eq!(annotations[HASH].len(), 32);
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("Node1"));
    let toleration = &spec.tolerations.as_ref().unwrap()[0];
    assert_eq!(
        (toleration.operator.as_deref(), toleration.effect.as_deref()),
        (Some("Exists"), Some("NoExecute"))
    );
}

#[test]
fn pod_uid_depends_only_on_node_source_namespace_and_name() {
    let base = uid("n", SourceKind::File, "default", "web");
    assert_eq!(base, uid("n", SourceKind::File, "default", "web"));
    for other in [
        uid("m", SourceKind::File, "default", "web"),
        uid("n", SourceKind::Http, "default", "web"),
        uid("n", SourceKind::File, "kube", "web"),
        uid("n", SourceKind::File, "default", "we"),
        uid("n", SourceKind::File, "defaultw", "eb"),
    ] {
        assert_ne!(base, other);
    }
    let parts: Vec<usize> = base.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12]);
    assert!(base[14..].starts_with('8') && "89ab".contains(&base[19..20]), "{base} is a UUID of version 8");
}

#[test]
fn unchanged_pod_keeps_its_allocation_and_a_changed_one_its_creation_time() {
    let first = placed(&pod("web", "a"), None, NOW);
    let reformatted = pod("web", "a").replace("kind: Pod", "# the same\nkind:   Pod");
    assert!(Arc::ptr_eq(&first, &placed(&reformatted, Some(&first), LATER)));
    let edited = placed(&pod("web", "b"), Some(&first), LATER);
    assert_eq!(edited.metadata.uid, first.metadata.uid);
    let annotation = |pod: &Pod, key: &str| pod.metadata.annotations.as_ref().unwrap()[key].clone();
    assert_eq!(annotation(&edited, SEEN), annotation(&first, SEEN));
    assert_ne!(annotation(&edited, HASH), annotation(&first, HASH));
}

#[test]
fn explicit_uid_is_kept_and_identifies_another_pod() {
    let with = |uid: &str| pod("web", "a").replace("metadata:", &format!("metadata:\n  uid: '{uid}'"));
    let first = placed(&pod("web", "a"), None, NOW);
    let given = placed(&with("my-own-uid"), Some(&first), LATER);
    assert_eq!(given.metadata.uid.as_deref(), Some("my-own-uid"));
    assert_eq!(given.metadata.annotations.as_ref().unwrap()[SEEN], LATER.to_string());
    for bad in ["../../etc", ".", "a/b", "a b", &"x".repeat(129)] {
        let refused = place(decoded(&with(bad)), "n", SourceKind::File, None, NOW).unwrap_err();
        assert_eq!(refused.path, "metadata.uid", "{bad}");
    }
}

#[test]
fn pod_name_too_long_with_the_node_suffix_is_rejected() {
    let refused =
        place(decoded(&pod(&"x".repeat(250), "a")), "node", SourceKind::File, None, NOW).unwrap_err();
    assert_eq!(refused.path, "metadata.name");
    assert_eq!(refused.remedy, "shorten it by 2: the limit is 253");
    assert!(place(decoded(&pod(&"x".repeat(248), "a")), "node", SourceKind::File, None, NOW).is_ok());
}

#[test]
fn manifest_with_a_mirror_annotation_is_rejected() {
    let mirror = pod("web", "a").replace(
        "  name: web",
        "  name: web\n  annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.source: api}",
    );
    let pod = placed(&mirror, None, NOW);
    let annotations = pod.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations.keys().map(String::as_str).collect::<Vec<_>>(), [HASH, SEEN, SOURCE]);
    assert_eq!(annotations[SOURCE], "file");
}

/// Reads these versions of a manifest in order. Returns names and images in use, and for each problem whether a last good
/// version is used.
fn after(versions: &[&str]) -> (String, Vec<bool>) {
    let place = ManifestContext { node: "n".to_owned(), source: SourceKind::File };
    let mut manifest = Manifest::default();
    for version in versions {
        let known: Known = manifest.objects.iter().map(|n| (n.name.clone(), n.object.clone())).collect();
        manifest = manifest.read(version.as_bytes(), &place, &known, NOW);
    }
    let objects = manifest.objects.iter().map(|named| match &named.object {
        SourceObject::Pod(pod) => {
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            format!("{}={}", named.name.name, &image[1..])
        }
        _ => named.name.name.clone(),
    });
    (objects.collect::<Vec<_>>().join(" "), manifest.problems.iter().map(|(_, kept)| *kept).collect())
}

#[test]
fn source_keeps_the_last_valid_version_of_a_pod() {
    let two = |a: &str, b: &str| format!("{}---\n{}", pod("a", a), pod("b", b));
    let broken = |name: &str| pod(name, "x").replace("image:", "imag:");
    let unnamed = "apiVersion: v1\nkind: Pod\nmetadata: [";
    for (versions, objects, problems) in [
        (vec![two("1", "1"), two("2", "1")], "a=2 b=1", vec![]),
        (vec![two("1", "1"), pod("a", "2")], "a=2", vec![]),
        (vec![two("1", "1"), format!("{}---\n{}", pod("a", "2"), broken("b"))], "a=2 b=1", vec![true]),
        (vec![pod("a", "1"), format!("{}---\n{}", pod("a", "2"), broken("b"))], "a=2", vec![false]),
        (vec![two("1", "1"), broken("b")], "b=1", vec![true]),
        (vec![two("1", "1"), format!("{}---\n{unnamed}", pod("a", "2"))], "a=2 b=1", vec![true]),
        (vec![two("1", "1"), unnamed.to_owned()], "a=1 b=1", vec![true]),
        (vec![two("1", "1"), String::new()], "a=1 b=1", vec![true]),
        (vec![two("1", "1"), "# nothing\n".to_owned()], "a=1 b=1", vec![true]),
        (vec![two("1", "1"), String::new(), pod("b", "3")], "b=3", vec![]),
        (vec![two("1", "1"), String::new(), broken("b"), unnamed.to_owned()], "b=1", vec![true]),
        (vec![unnamed.to_owned()], "", vec![false]),
    ] {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let (now, kept) = after(&versions);
        assert_eq!((now.as_str(), kept), (objects, problems), "{versions:#?}");
    }
}

#[test]
fn invalid_pod_is_reported_separately() {
    let long = "x".repeat(253);
    let (objects, problems) = after(&[&format!("{}---\n{}", pod(&long, "1"), pod("b", "1"))]);
    assert_eq!((objects.as_str(), problems), ("b=1", vec![false]));
    assert_eq!(identity::problem().to_string(), "; ");
}
