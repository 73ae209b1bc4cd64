//! Tests of all kinds: an empty object is rejected if there are required fields, a minimal object is accepted, and
//! nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Part, metadata, of};
use super::Case;
use crate::schema;

/// API version, kind and required fields of each kind.
fn least() -> impl Iterator<Item = (&'static str, &'static str, Value)> {
    let lines = include_str!("least.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        (word(), word(), serde_json::from_str(word()).unwrap())
    })
}

fn named(api_version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let place = if kind == "Event" { "default" } else { "a" };
    object["metadata"] = json!({"name": "a", "namespace": place, "uid": "0000-1111"});
    object
}

#[test]
fn minimal_objects_are_valid_and_empty_ones_are_not() {
    for (api_version, kind, least) in least() {
        let has_required_fields = least != json!({});
        let messages = Case::new(named(api_version, kind, least)).messages(&Part::Main);
        assert_eq!(messages, [] as [&str; 0], "{kind}");
        let messages = Case::new(named(api_version, kind, json!({}))).messages(&Part::Main);
        assert_eq!(!messages.is_empty(), has_required_fields, "an empty {kind}: {messages:?}");
    }
}

#[test]
fn every_writable_kind_is_in_the_list() {
    // Kinds that are not stored, and kinds that other components add.
    let others = [
        "resource.k8s.io",
        "apiregistration.k8s.io",
        "apiextensions.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "internal.apiserver.k8s.io",
        "storagemigration.k8s.io",
    ];
    let requests = [
        "Binding",
        "PodCertificateRequest",
        "ClusterTrustBundle",
        "ComponentStatus",
        "Eviction",
        "Scale",
        "DeleteOptions",
        "Status",
    ];
    for (api_version, kind, _) in schema::all().kinds() {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let is_object = !kind.ends_with("List") && !kind.ends_with("Options") && !requests.contains(&kind);
        if is_object
            && !others.contains(&group)
            && !api_version.contains("alpha")
            && !api_version.contains("beta")
        {
            assert!(least().any(|row| (row.0, row.1) == (api_version, kind)), "{api_version} {kind}");
        }
    }
}

#[test]
fn rewriting_an_object_changes_nothing() {
    for (api_version, kind, least) in least() {
        let before = Case::new(named(api_version, kind, least)).object;
        let again = Case::update(&before, &Part::Main, |_| {});
        assert_eq!(again.object, before, "{kind}");
        assert_eq!(again.messages(&Part::Main), [] as [&str; 0], "{kind}");
        assert_eq!(again.messages(&Part::Status), [] as [&str; 0], "{kind}");
    }
}

#[test]
fn status_has_the_fields_that_the_api_always_writes() {
    let replicas =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a", "uid": "1"}});
    let before = replicas.as_object().unwrap();
    let error = |status: Value| {
        Case::update(before, &Part::Status, |it| it["status"] = status).object["status"].clone()
    };
    assert_eq!(error(json!({"readyReplicas": 1})), json!({"readyReplicas": 1, "replicas": 0}));
    assert_eq!(error(json!({"replicas": 2})), json!({"replicas": 2}));
    assert_eq!(error(json!("odd")), json!("odd"));
    let condition = error(json!({"conditions": [{"type": "A", "status": "True"}]}));
    assert_eq!(condition["replicas"], 0, "{condition}");
}

#[test]
fn a_field_of_the_wrong_type_is_the_only_error() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "three"}});
    let messages = Case::new(object).messages(&Part::Main);
    assert!(
        messages.len() == 1 && messages[0].starts_with("spec.replicas: Invalid value: \"three\""),
        "{messages:?}"
    );
}

/// Sets `value` at a random position of an object.
fn put(object: &mut Value, steps: &[usize], value: Value) {
    let mut here = object;
    for step in steps {
        let length = match &*here {
            Value::Object(fields) => fields.len(),
            Value::Array(elements) => elements.len(),
            _ => 0,
        };
        if length == 0 {
            break;
        }
        here = match here {
            Value::Object(fields) => fields.values_mut().nth(step % length).unwrap(),
            Value::Array(elements) => &mut elements[step % length],
            _ => return,
        };
    }
    *here = value;
}

const PARTS: [Part<'static>; 7] = [
    Part::Main,
    Part::Status,
    Part::Sub("ephemeralcontainers"),
    Part::Sub("finalize"),
    Part::Sub("resize"),
    Part::Sub("approval"),
    Part::Sub("x"),
];

proptest! {
    /// No value of any type causes a panic, and defaulting is idempotent.
    #[test]
    fn validation_and_defaulting_never_panic(
        row in prop::sample::select(least().collect::<Vec<_>>()),
        any in crate::shape::random::any_object(),
        value in crate::shape::random::any_value(),
        steps in prop::collection::vec(0..9_usize, 1..7),
    ) {
        let (api_version, kind, least) = row;
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let strategy = of(group, kind);
        let right = named(api_version, kind, least);
        let mut wrong = right.clone();
        put(&mut wrong, &steps, value);
        for object in [any, wrong] {
            let Value::Object(mut object) = object else { continue };
            object.insert("apiVersion".to_owned(), api_version.into());
            object.insert("kind".to_owned(), kind.into());
            let mut once = object.clone();
            schema::normalize(&mut once, api_version, kind);
            prop_assert!(strategy.default(&mut once).is_ok());
            let mut twice = once.clone();
            prop_assert!(strategy.default(&mut twice).is_ok());
            prop_assert_eq!(&once, &twice);
            schema::normalize(&mut twice, api_version, kind);
            prop_assert_eq!(&once, &twice);
            for part in PARTS {
                for before in [None, right.as_object(), Some(&object)] {
                    let mut new = once.clone();
                    strategy.prepare(&mut new, before, &part);
                    strategy.validate(&new, before, &part);
                    strategy.warnings(&new);
                    metadata(&new, before, group, kind);
                }
            }
        }
    }
}
