//! Stable identity: names, labels, hostname, and volumes.

use super::super::identity::{claim, ordinal, pod};
use super::super::plan::is_member;
use super::*;

#[test]
fn ordinals_are_parsed_from_names() {
    for (name, expected) in [
        ("web-0", Some(0)),
        ("web-12", Some(12)),
        ("web-01", None),
        ("web-", None),
        ("web", None),
        ("web--1", None),
        ("web-+1", None),
        ("web-a-1", None),
        ("db-1", None),
        ("web-99999999999", None),
    ] {
        assert_eq!(ordinal("web", name), expected, "{name}");
    }
    assert_eq!(ordinal("web-1", "web-1-2"), Some(2));
    let other = TestPod { name: "web-x".to_owned(), labels: StringMap::default(), state: 'r' };
    assert!(!is_member(&set(&[]), &replica(&other)));
}

#[test]
fn a_pod_has_a_stable_identity() {
    let templates = json!([{"metadata": {"name": "data"}}, {"metadata": {"name": "logs"}}]);
    let set = set(&[("/spec/volumeClaimTemplates", templates)]);
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "ignored"},
        "spec": {"containers": [{"name": "c"}], "hostname": "x",
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]},
    });
    let claimed =
        |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-web-4")}});
    assert_eq!(
        pod(&set, &template, 4, "web-abc"),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-4", "generateName": "web-", "annotations": {"a": "b"},
                "labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-4",
                    "apps.kubernetes.io/pod-index": "4", "controller-revision-hash": "web-abc"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [{"name": "c"}], "hostname": "web-4", "subdomain": "web",
                "volumes": [claimed("data"), claimed("logs"), {"name": "tmp", "emptyDir": {}}]},
        })
    );
    // A ControllerRevision that a user has written may hold anything.
    let broken = json!({"metadata": {"labels": "x", "finalizers": {}}, "spec": "y"});
    assert_eq!(pod(&set, &broken, 0, "r")["spec"]["hostname"], "web-0");
}

#[test]
fn a_claim_has_the_labels_of_the_selector() {
    let template = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"},
        "metadata": {"name": "data", "labels": {"tier": "x"}, "annotations": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"]}});
    assert_eq!(
        claim(&set(&[]), &template, "web-1"),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-1", "labels": {"tier": "x", "app": "web"}, "annotations": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"]}})
    );
}

#[test]
fn missing_labels_are_added() {
    let mut pod = pods("0 new r").remove(0);
    pod.labels = [("app", "web"), (POD_REVISION_LABEL, "new")].into_iter().collect();
    let (set, replicas) = (set(&[]), [replica(&pod)]);
    let revisions = RevisionNames { current: "new", update: "new" };
    let claims = HashMap::new();
    let plan = plan(&Input { set: &set, pods: &replicas, claims: &claims, revisions, now: at(100) });
    assert_eq!(plan.phases[0].iter().map(text).collect::<Vec<_>>(), ["label web-0", "create 1 new"]);
}
