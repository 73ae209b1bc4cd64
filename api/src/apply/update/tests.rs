//! Tests that the fast path and the full path produce the same record.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::Cell;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shape::random::any_object;
use crate::shape::sample;

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// A sequence of writes: object, index of the manager, and whether the status is written.
type Writes = Vec<(Value, usize, bool)>;

/// The final record, and how often the fast path was taken. Both paths must agree at each step.
fn record(writes: Writes) -> (Vec<u8>, usize) {
    const MANAGERS: [&str; 3] = ["a", "b", "c"];
    let (mut live, mut recorded, short) = (None::<Map<String, Value>>, Vec::new(), Cell::new(0));
    for (second, (new, manager, is_status)) in (1..).zip(writes) {
        let writer = Writer {
            manager: MANAGERS[manager % MANAGERS.len()],
            part: if is_status { Part::Status } else { Part::Main },
            api_version: "v1",
            shape: sample::pod(),
            now: Timestamp::from_second(second).unwrap(),
        };
        let mut new = object(new);
        let nothing = Map::new();
        let before = live.as_ref().unwrap_or(&nothing);
        let comparison = Comparison::of_objects(before, &new, writer.shape).map(|set| writer.restrict(set));
        let (removed, changed) = (comparison.removed.clone(), comparison.set());
        if let Some(quick) = updated_without_decoding(&recorded, &removed, &changed, &writer) {
            let long = updated_record(ManagedFields::read(&recorded).unwrap(), &removed, changed, &writer);
            assert_eq!(String::from_utf8_lossy(&quick), String::from_utf8_lossy(&long));
            short.set(short.get() + 1);
        }
        recorded = track_update(live.as_ref(), &recorded, &mut new, &writer);
        live = Some(new);
    }
    (recorded, short.get())
}

#[test]
fn writes_of_owned_fields_take_the_fast_path() {
    let pod = |image: &str, note: &str| {
        json!({
            "metadata": {"name": "p", "annotations": {"note": note}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        })
    };
    let story = |writes: &[(&str, &str, usize)]| {
        record(writes.iter().map(|(image, note, manager)| (pod(image, note), *manager, false)).collect()).1
    };
    // The same field again; no change; then a field of another manager.
    assert_eq!(story(&[("a", "1", 0), ("a", "2", 0), ("b", "2", 0)]), 2);
    assert_eq!(story(&[("a", "1", 0), ("a", "1", 0), ("a", "1", 1)]), 2);
    assert_eq!(story(&[("a", "1", 0), ("a", "2", 1), ("a", "3", 1), ("a", "4", 0)]), 1);
}

#[test]
fn fields_that_became_atomic_are_decoded() {
    let writer = Writer {
        manager: "a",
        part: Part::Main,
        api_version: "v1",
        shape: sample::pod(),
        now: Timestamp::from_second(9).unwrap(),
    };
    // The record is from a time when label selectors were not atomic.
    let recorded = r#"[{"manager":"a","operation":"Update","apiVersion":"v1","time":"1970-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nodeSelector":{"f:x":{"f:y":{}}}}}}]"#;
    let mut set = FieldSet::default();
    let field = |name: &str| crate::apply::field_set::PathElement::Field(name.to_owned());
    set.insert(&[field("spec"), field("nodeSelector"), field("x")]);
    let nothing = FieldSet::default();
    let quick = updated_without_decoding(recorded.as_bytes(), &nothing, &set, &writer);
    let long = updated_record(ManagedFields::read(recorded.as_bytes()).unwrap(), &nothing, set, &writer);
    assert!(quick.is_none_or(|quick| quick == long));
}

proptest! {
    #[test]
    fn fast_path_and_full_path_give_the_same_managed_fields(
        writes in prop::collection::vec((any_object(), 0..3_usize, any::<bool>()), 1..6),
        again in prop::collection::vec((0..6_usize, 0..3_usize), 0..6),
    ) {
        let mut all = writes.clone();
        // Repeats earlier writes by the same or another manager, because most writes change little.
        all.extend(again.into_iter().map(|(at, manager)| {
            let (object, _, part) = writes[at % writes.len()].clone();
            (object, manager, part)
        }));
        record(all);
    }
}
