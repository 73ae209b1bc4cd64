//! Tests of field sets: encoding, paths and set operations.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::FieldSet;
use crate::apply::extract;
use crate::shape::random::{any_object, any_pod, any_value};
use crate::shape::{Shape, sample};

fn written(set: &FieldSet) -> Value {
    serde_json::to_value(set).unwrap()
}

/// Reconciles a set with a type, and checks the returned flag.
fn settled(set: &FieldSet, shape: Shape<'_>) -> FieldSet {
    let mut settled = set.clone();
    assert_eq!(settled.reconcile(shape), settled != *set);
    settled
}

fn set(fields: Value) -> FieldSet {
    FieldSet::parse(&fields).unwrap()
}

fn paths(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(ToString::to_string).collect()
}

#[test]
fn field_set_round_trips() {
    for (fields, expected) in [
        (json!({}), vec![]),
        (json!({"f:spec": {"f:replicas": {}}}), vec![".spec.replicas"]),
        (json!({"f:spec": {".": {}, "f:replicas": {}}}), vec![".spec", ".spec.replicas"]),
        (
            json!({"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}),
            vec![".containers[name=\"web\"]", ".containers[name=\"web\"].image"],
        ),
        (
            json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}),
            vec![".ports[port=80,protocol=\"TCP\"]"],
        ),
        (
            json!({"f:finalizers": {"v:\"a/b\"": {}, "v:7": {}}}),
            vec![".finalizers[=\"a/b\"]", ".finalizers[=7]"],
        ),
        (json!({"f:list": {"i:0": {}, "i:12": {"f:x": {}}}}), vec![".list[0]", ".list[12].x"]),
        (json!({"f:labels": {"f:example.com/a": {}}}), vec![".labels.example.com/a"]),
    ] {
        assert_eq!(paths(&set(fields.clone())), expected);
        assert_eq!(written(&set(fields.clone())), fields);
    }
}

#[test]
fn equivalent_field_sets_are_equal() {
    assert_eq!(
        set(json!({"k:{ \"b\": 1, \"a\": \"<\" }": {}})),
        set(json!({"k:{\"a\":\"\\u003c\",\"b\":1}": {}}))
    );
    assert_eq!(set(json!({"f:a": {".": {}}})), set(json!({"f:a": {}})));
    // A later version may have more types of path elements.
    assert_eq!(set(json!({"f:a": {}, "z:new": {"f:b": {}}})), set(json!({"f:a": {}})));
    assert!(set(Value::Null).is_empty());
}

#[test]
fn invalid_sets_are_rejected() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"f:d": deep});
    }
    for fields in [
        json!([]),
        json!({"spec": {}}),
        json!({"": {}}),
        json!({"f:a": 1}),
        json!({"k:x": {}}),
        json!({"v:": {}}),
        json!({"i:-1": {}}),
        deep,
    ] {
        assert!(FieldSet::parse(&fields).is_err(), "{fields}");
    }
}

#[test]
fn field_sets_can_be_combined() {
    let a = || set(json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}}));
    let b = || set(json!({"f:a": {"f:x": {}}, "f:b": {"f:z": {}}, "f:c": {}}));
    for (combined, expected) in [
        (a().union(b()), vec![".a", ".a.x", ".a.y", ".b", ".b.z", ".c"]),
        (a().intersection(&b()), vec![".a.x"]),
        (a().difference(&b()), vec![".a", ".a.y", ".b"]),
        (b().difference(&a()), vec![".b.z", ".c"]),
        (b().outside(&a()), vec![".c"]),
        (a().outside(&b()), vec![".a", ".a.y", ".b"]),
        (a().leaves(), vec![".a.x", ".a.y", ".b"]),
    ] {
        assert_eq!(paths(&combined), expected);
    }
    let path = set(json!({"f:a": {"f:x": {}}})).paths().remove(0);
    assert!(a().has(&path.0) && !a().has(&[]) && !FieldSet::default().has(&path.0));
    let mut built = FieldSet::default();
    built.insert(&[]);
    built.insert(&path.0);
    assert_eq!(paths(&built), [".a.x"]);
}

#[test]
fn field_set_follows_the_schema_type() {
    let parts = set(
        json!({"f:spec": {"f:nodeSelector": {".": {}, "f:a": {}}, "f:tolerations": {"i:0": {}}, "f:nodeName": {}}}),
    );
    assert_eq!(
        paths(&settled(&parts, sample::pod())),
        [".spec.nodeName", ".spec.nodeSelector", ".spec.tolerations"]
    );
    assert_eq!(settled(&parts, Shape::UNKNOWN), parts);
}

#[test]
fn the_fields_of_an_object() {
    let pod = json!({
        "metadata": {"name": "web", "labels": {"a": "1"}, "annotations": {}, "finalizers": ["f"]},
        "spec": {
            "containers": [{"name": "c", "image": "i", "command": ["a", "b"], "ports": [{"containerPort": 80}], "securityContext": {}}],
            "tolerations": [{"key": "k"}],
            "nodeSelector": {"a": "1"},
            "volumes": [],
            "nodeName": null,
            "unknown": {"x": [1]},
        },
    });
    assert_eq!(
        written(&extract(&pod, sample::pod())),
        json!({
            "f:metadata": {"f:annotations": {}, "f:finalizers": {"v:\"f\"": {}}, "f:labels": {"f:a": {}}, "f:name": {}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:command": {}, "f:image": {}, "f:name": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    "f:securityContext": {},
                }},
                "f:nodeName": {}, "f:nodeSelector": {}, "f:tolerations": {}, "f:unknown": {".": {}, "f:x": {}},
            },
        })
    );
    assert_eq!(
        written(&extract(&json!({"spec": {"list": [{"name": "a"}], "map": {"k": {}}}}), Shape::UNKNOWN)),
        json!({"f:spec": {".": {}, "f:list": {}, "f:map": {".": {}, "f:k": {}}}})
    );
    // Elements with duplicate keys have one owner; an invalid list is owned as a whole.
    for (ports, fields) in [
        (
            json!([{"containerPort": 1, "name": "a"}, {"containerPort": 1, "protocol": "TCP"}]),
            json!({"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {}}),
        ),
        (json!([{"name": "a"}]), json!({})),
        (json!([1]), json!({})),
    ] {
        let pod = json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
        let set = written(&extract(&pod, sample::pod()));
        assert_eq!(set["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:ports"], fields, "{pod}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_field_set_round_trips(object in any_object(), pod in any_pod(true)) {
        for set in [extract(&object, Shape::UNKNOWN), extract(&object, sample::pod()), extract(&pod, sample::pod())] {
            prop_assert_eq!(FieldSet::parse(&written(&set)).ok(), Some(set.clone()));
            prop_assert_eq!(set.paths().iter().filter(|path| set.has(&path.0)).count(), set.paths().len());
        }
    }

    #[test]
    fn set_algebra(a in any_pod(true), b in any_pod(true)) {
        let (a, b) = (extract(&a, sample::pod()), extract(&b, sample::pod()));
        let (union, both) = (a.clone().union(b.clone()), a.intersection(&b));
        prop_assert_eq!(&union, &b.clone().union(a.clone()));
        prop_assert_eq!(&both, &b.intersection(&a));
        prop_assert_eq!(&a.clone().difference(&b).union(both.clone()), &a);
        prop_assert_eq!(union.clone().difference(&b), a.clone().difference(&b));
        prop_assert!(a.clone().difference(&a).is_empty() && both.clone().difference(&a).is_empty());
        prop_assert_eq!(a.includes(&b), b.clone().difference(&a).is_empty());
        prop_assert!(union.includes(&a) && a.includes(&both) && a.includes(&FieldSet::default()));
        let mut rest = a.clone();
        prop_assert_eq!(rest.subtract(&b), rest != a);
    }

    #[test]
    fn field_set_parser_never_panics(fields in any_value()) {
        let _ = FieldSet::parse(&fields);
    }
}
