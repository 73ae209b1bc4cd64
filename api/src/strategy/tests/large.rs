//! Tests that validation of objects with tens of thousands of elements takes linear time.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Case, stored};
use crate::strategy::{Part, metadata};

/// Many times the duration in a debug build, and a small part of the duration of comparing all pairs.
const MOST: Duration = Duration::from_secs(20);

fn many<T>(count: usize, element: impl Fn(usize) -> T) -> Vec<T> {
    (0..count).map(element).collect()
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

#[test]
fn mounts_of_volumes_that_do_not_exist() {
    let long = "x".repeat(50);
    let volumes = many(6_000, |number| json!({"name": format!("v{number}{long}"), "emptyDir": {}}));
    let mounts =
        many(6_000, |number| json!({"name": format!("w{number}{long}"), "mountPath": format!("/{number}")}));
    let devices = many(
        6_000,
        |number| json!({"name": format!("v{number}{long}"), "devicePath": format!("/d{number}")}),
    );
    let container = json!({"name": "c", "image": "i", "volumeMounts": mounts, "volumeDevices": devices});
    let pod = pod(json!({"volumes": volumes, "containers": [container]}));
    let begun = Instant::now();
    let messages = Case::new(pod).messages(&Part::Main);
    assert!(!messages.is_empty() && messages.len() <= 101, "{} causes", messages.len());
    assert!(begun.elapsed() < MOST, "{:?}", begun.elapsed());
}

#[test]
fn tolerations_of_a_pod_that_is_updated() {
    let tolerations = |extra: Option<&str>| {
        let own = many(6_000, |number| json!({"key": format!("k{number}"), "operator": "Exists"}));
        let extra = extra.map(|key| json!({"key": key, "operator": "Exists"}));
        own.into_iter().chain(extra).collect::<Value>()
    };
    let before = stored(&pod(json!({"tolerations": tolerations(None)})));
    let begun = Instant::now();
    let case =
        Case::update(&before, &Part::Main, |pod| pod["spec"]["tolerations"] = tolerations(Some("one-more")));
    assert_eq!(case.messages(&Part::Main), [] as [&str; 0]);
    let case =
        Case::update(&before, &Part::Main, |pod| pod["spec"]["tolerations"][5_999]["key"] = "other".into());
    let messages = case.messages(&Part::Main);
    assert!(
        messages.iter().any(|line| line.contains("existing tolerations can not be modified")),
        "{messages:?}"
    );
    assert!(begun.elapsed() < MOST, "{:?}", begun.elapsed());
}

#[test]
fn finalizers_of_an_object_that_is_being_deleted() {
    let object = |first: &str| {
        let own = many(30_000, |number| format!("{first}/f{number}"));
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": own},
        });
        object.as_object().unwrap().clone()
    };
    let (before, other) = (object("a.b"), object("c.d"));
    let begun = Instant::now();
    assert!(metadata(&before, Some(&before), "", "ConfigMap").is_empty());
    let causes = metadata(&other, Some(&before), "", "ConfigMap");
    assert!(causes[0].message.contains("no new finalizers can be added"), "{causes:?}");
    assert!(causes[0].message.len() < 4_000, "it names some of them");
    assert!(begun.elapsed() < MOST, "{:?}", begun.elapsed());
}
