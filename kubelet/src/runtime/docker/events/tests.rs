//! Lines of a real engine's event stream.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn an_event_names_the_container_and_its_pod() {
    let line = br#"{"status":"die","id":"abc","from":"busybox","Type":"container","Action":"die","Actor":{"ID":"abc",
        "Attributes":{"exitCode":"0","io.kubernetes.pod.uid":"u1","name":"k8s_app"}},"scope":"local","time":1}"#;
    assert_eq!(event(line), Some(Event { id: "abc".to_owned(), uid: PodUid::new("u1"), removed: false }));
    let line = br#"{"Action":"destroy","Actor":{"ID":"abc","Attributes":{"io.kubernetes.pod.uid":"u1"}}}"#;
    assert!(event(line).unwrap().removed);
}

#[test]
fn what_is_of_no_pod_is_not_ours() {
    assert_eq!(event(br#"{"Action":"die","Actor":{"ID":"abc","Attributes":{"name":"x"}}}"#), None);
    assert_eq!(event(b"not json"), None);
}
