//! Tests of the pods of this node after a restart of the kubelet.

use std::slice::from_ref;
use std::sync::Arc;

use serde_json::json;

use super::{LocalPods, is_of_local_source};
use crate::desired::{Completeness, Desired, DesiredPod, SourceKind};
use crate::network::native::{PolicyFields, PolicySandbox, SandboxId};
use crate::observed::PodUid;

fn sandbox(pod: &str) -> PolicySandbox {
    let uid = PodUid::new("u1");
    PolicySandbox {
        id: SandboxId::of_uid(&uid),
        uid,
        pod: pod.to_owned(),
        fields: None,
        addresses: vec!["10.0.0.2".parse().unwrap()],
        port: "cor1".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
    }
}

fn pod(source: SourceKind, label: &str) -> Arc<DesiredPod> {
    let ports = json!([{"name": "web", "containerPort": 80}, {"containerPort": 81}]);
    let pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "labels": {"app": label}},
        "spec": {"containers": [{"name": "main", "ports": ports}]},
    }));
    Arc::new(DesiredPod { uid: PodUid::new("u1"), pod: Arc::new(pod.unwrap()), source })
}

/// What a kubelet that has just started knows.
fn unknown() -> Desired {
    let (completeness, api_completeness) = (Completeness::Incomplete, Completeness::Incomplete);
    Desired { completeness, api_completeness, ..Desired::default() }
}

fn with(pod: Arc<DesiredPod>) -> Desired {
    Desired { pods: [(pod.uid.clone(), pod)].into(), ..unknown() }
}

#[test]
fn stored_labels_count_until_the_pod_is_known() {
    let mut pods = LocalPods::default();
    let mut one = sandbox("shop/web");
    assert!(!pods.knows_all(from_ref(&one), &unknown()));
    let desired = with(pod(SourceKind::Http, "first"));
    assert!(pods.knows_all(from_ref(&one), &desired));
    let before = pods.update(from_ref(&one), &desired);
    assert_eq!((before[0].has_known_labels, before[0].pod.ports.len()), (true, 1));
    one.fields = Some(pods.unstored(from_ref(&one))[0].1.clone());
    assert!(pods.unstored(from_ref(&one)).is_empty());

    let mut restarted = LocalPods::default();
    assert!(restarted.knows_all(from_ref(&one), &unknown()), "no source has answered");
    assert_eq!(restarted.update(from_ref(&one), &unknown()), before);
    let changed = restarted.update(from_ref(&one), &with(pod(SourceKind::Http, "second")));
    assert_eq!(changed[0].pod.labels["app"], "second");
    assert_eq!(restarted.unstored(&[one]).len(), 1, "changed labels are stored again");
}

#[test]
fn labels_of_a_pod_without_a_manifest_or_stored_labels_are_unknown() {
    let local = LocalPods::default().update(&[sandbox("shop/web")], &unknown());
    assert!(!local[0].has_known_labels);
    assert_eq!((local[0].pod.namespace.as_str(), local[0].pod.name.as_str()), ("shop", "web"));
}

#[test]
fn a_sandbox_of_an_earlier_version_gets_namespace_and_name_of_its_pod() {
    let local = LocalPods::default().update(&[sandbox("u1")], &with(pod(SourceKind::Api, "web")));
    assert_eq!((local[0].pod.namespace.as_str(), local[0].pod.name.as_str()), ("shop", "web"));
    assert!(local[0].has_known_labels);
}

#[test]
fn pods_that_cannot_run_now_do_not_delay_the_rules() {
    let pods = LocalPods::default();
    let one = [sandbox("shop/web")];
    assert!(pods.knows_all(&one, &Desired { waiting: [PodUid::new("u1")].into(), ..unknown() }));
    let conflict = (pod(SourceKind::Api, "web"), Arc::from("file"));
    assert!(
        pods.knows_all(
            &one,
            &Desired { name_conflicts: [(PodUid::new("u1"), conflict)].into(), ..unknown() }
        )
    );
}

#[test]
fn only_pods_of_local_sources_need_no_api_server() {
    let uid = PodUid::new("u1");
    assert!(is_of_local_source(&with(pod(SourceKind::File, "web")), &uid));
    assert!(!is_of_local_source(&with(pod(SourceKind::Api, "web")), &uid));
    assert!(!is_of_local_source(&unknown(), &uid));
}

#[test]
fn fields_without_labels_are_known() {
    let fields = Some(Arc::new(PolicyFields { namespace: "shop".to_owned(), ..PolicyFields::default() }));
    let local = LocalPods::default().update(&[PolicySandbox { fields, ..sandbox("shop/web") }], &unknown());
    assert!(local[0].has_known_labels && local[0].pod.labels.is_empty());
}
