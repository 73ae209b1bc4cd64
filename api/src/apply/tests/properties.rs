//! Property tests of applies.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Part, Story, Writer, applied_to, spec, update};
use crate::apply::{FieldSet, extract};
use crate::shape::random::{any_object, any_pod, any_value};
use crate::shape::{Shape, sample};

/// The fields that a manager owns by apply.
fn owned(object: &Value, manager: &str) -> FieldSet {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let own = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    own.map(|entry| FieldSet::parse(&entry["fieldsV1"]).unwrap()).unwrap_or_default()
}

fn writer(manager: &'static str) -> Writer<'static> {
    Story::pod().writer(manager)
}

#[test]
fn stored_records_can_be_read() {
    let deep = |depth: usize| {
        let mut deep = json!({"apiVersion": "v1", "d": "x"});
        for _ in 1..depth {
            deep = json!({"apiVersion": "v1", "d": deep});
        }
        deep
    };
    let reads_back = |object: &Value| serde_json::from_str::<Value>(&object.to_string()).unwrap() == *object;
    for depth in [1, 119, 120] {
        let mut other = deep(depth);
        *other.pointer_mut(&"/d".repeat(depth)).unwrap() = "y".into();
        let story = Story::pod()
            .create("u", deep(depth))
            .force("a", other.clone())
            .update("v", |new| *new = deep(depth));
        assert!(reads_back(story.object.as_ref().unwrap()));
        assert!(story.get("/metadata/managedFields").is_some());
        let patched =
            crate::patch::strategic::apply(story.object.clone().unwrap(), &other, sample::pod()).unwrap();
        assert!(reads_back(&patched));
        assert_eq!(crate::patch::merge::apply(patched.clone(), &other), Ok(patched));
    }
    for depth in [121, 127] {
        let story = Story::pod().create("u", deep(depth)).update("v", |new| new["x"] = 1.into());
        assert!(reads_back(story.object.as_ref().unwrap()));
        assert_eq!(story.get("/metadata/managedFields"), None);
    }
}

#[test]
fn large_objects_are_fast() {
    let pod = |image: &str| {
        let env: Value = (0..20).map(|i| json!({"name": format!("E{i}"), "value": "x"})).collect();
        let containers: Value =
            (0..100).map(|i| json!({"name": format!("c{i}"), "image": image, "env": env})).collect();
        spec(json!({"containers": containers}))
    };
    let story =
        Story::pod().apply("a", pod("1")).apply("a", pod("2")).apply("a", spec(json!({"nodeName": "n"})));
    assert_eq!(story.get("/spec"), Some(&json!({"nodeName": "n"})));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn applying_twice_changes_nothing(live in any_pod(true), other in any_pod(true), pod in any_pod(true)) {
        let story = Story::pod().create("u", live).force("b", other).force("a", pod.clone());
        let again = applied_to(story.object.as_ref(), &pod, false, &writer("a")).unwrap();
        prop_assert_eq!(Some(again), story.object);
    }

    #[test]
    fn applied_fields_exist_and_are_owned(live in any_pod(true), before in any_pod(true), pod in any_pod(true)) {
        let story = Story::pod().create("u", live).force("a", before).force("a", pod.clone());
        let wanted = writer("a").ownable(extract(&pod, sample::pod()));
        prop_assert_eq!(owned(story.object.as_ref().unwrap(), "a"), wanted.clone());
        let there = extract(&story.plain(), sample::pod()).with_structs(sample::pod());
        prop_assert!(wanted.difference(&there).is_empty());
    }

    #[test]
    fn a_single_applier_gets_what_it_applies(before in any_pod(true), pod in any_pod(true)) {
        let story = Story::pod().apply("a", before).apply("a", pod.clone());
        let alone = Story::pod().apply("a", pod);
        let fields = |story: &Story| extract(&story.plain(), sample::pod()).leaves();
        let empty = FieldSet::parse(&json!({"f:metadata": {"f:labels": {}}, "f:spec": {}})).unwrap();
        // Empty containers may remain.
        prop_assert!(fields(&alone).difference(&fields(&story)).difference(&empty).is_empty());
        prop_assert!(fields(&story).difference(&fields(&alone)).difference(&empty).is_empty());
    }

    #[test]
    fn apply_without_fields_keeps_other_owners(live in any_pod(true), other in any_pod(true), pod in any_pod(true)) {
        let story = Story::pod().create("u", live).force("b", other);
        let kept: FieldSet = owned(story.object.as_ref().unwrap(), "b");
        // Fields of b stay, independent of a.
        let mut story = story;
        let nothing = json!({"apiVersion": "v1"});
        if story.try_apply("a", pod, false).is_ok() {
            let story = story.apply("a", nothing);
            prop_assert_eq!(owned(story.object.as_ref().unwrap(), "b"), kept.clone());
            let there = extract(&story.plain(), sample::pod()).with_structs(sample::pod());
            prop_assert!(kept.difference(&there).is_empty());
        }
    }

    #[test]
    fn the_creator_owns_everything(pod in any_pod(true), object in any_object()) {
        for (new, shape) in [(pod, sample::pod()), (object, Shape::UNKNOWN)] {
            let mut new = new;
            let writer = Writer { shape, part: Part::Whole, ..writer("u") };
            let all = writer.ownable(extract(&new, shape));
            update(None, &mut new, &writer);
            let entry = new.pointer("/metadata/managedFields/0/fieldsV1").unwrap_or(&Value::Null).clone();
            if new.get("metadata").is_none_or(Value::is_object) {
                // The rest are empty lists, which appliers do not own.
                prop_assert!(all.difference(&FieldSet::parse(&entry).unwrap()).is_empty());
            }
        }
    }

    #[test]
    fn apply_never_panics(live in any_value(), value in any_value(), mut applied in any_object(), part in 0..4_usize) {
        let part = [Part::Whole, Part::Main, Part::Status, Part::Other("x")][part];
        for shape in [sample::pod(), Shape::UNKNOWN] {
            let writer = Writer { part, shape, ..writer("kubectl") };
            applied["apiVersion"] = "v1".into();
            for live in [None, Some(&live)] {
                for force in [false, true] {
                    let _ = applied_to(live, &applied, force, &writer);
                }
                if value.is_object() {
                    update(live, &mut value.clone(), &writer);
                }
                update(Some(&value), &mut applied.clone(), &writer);
            }
        }
    }
}
