//! What an edit takes along, and what it leaves alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::plan::{Action, Key};

fn pod(hostname: &str, ephemerals: Value) -> Pod {
    let spec = json!({
        "hostname": hostname, "containers": [{"name": "web", "image": "a"}], "ephemeralContainers": ephemerals,
    });
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
}

#[test]
fn an_ephemeral_container_has_a_hash_of_its_own_and_changes_no_other() {
    let plain = of(&pod("h", json!([])));
    let debugged =
        |hostname: &str, image: &str| of(&pod(hostname, json!([{"name": "debug", "image": image}])));
    let key =
        Action::CreateContainer { name: "debug".to_owned(), attempt: 0, back_off: std::time::Duration::ZERO }
            .key();
    let of_debugger = |hashes: &Hashes| hashes.of(&key).cloned();
    let known = debugged("h", "a");
    assert_eq!((known.all(), &known.containers), (plain.all(), &plain.containers));
    assert!(of_debugger(&known).is_some() && of_debugger(&plain).is_none());
    assert_ne!(of_debugger(&known), of_debugger(&debugged("h", "b")));
    assert_ne!(of_debugger(&known), of_debugger(&debugged("other", "a")), "its sandbox goes");
    assert_eq!(known.of(&Key::Container("web".to_owned())), plain.of(&Key::Container("web".to_owned())));
}
