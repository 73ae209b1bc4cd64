//! Tests of valid and invalid `managedFields`.
#![allow(clippy::unwrap_used, reason = "tests")]

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Entry, FieldSet, ManagedFields};
use crate::shape::Shape;

fn entry(change: impl FnOnce(&mut Value)) -> Value {
    let mut entry = json!({
        "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}},
    });
    change(&mut entry);
    entry
}

#[test]
fn managed_fields_entries_round_trip() {
    let entries = json!([
        entry(|entry| entry["operation"] = "Apply".into()),
        entry(|entry| drop(entry.as_object_mut().unwrap().remove("time"))),
        entry(|_| {}),
        entry(|entry| entry["subresource"] = "status".into()),
        entry(|entry| entry["time"] = "2026-01-02T03:04:06Z".into()),
        entry(|entry| entry["manager"] = "a".into()),
    ]);
    let managed = ManagedFields::read(entries.to_string().as_bytes()).unwrap();
    let record = managed.record();
    // Sorted by operation and time; a later entry replaces an earlier one of the same manager.
    let expected = [0, 5, 3, 4].map(|index| entries[index].clone());
    assert_eq!(serde_json::from_slice::<Value>(&record).unwrap(), Value::from(expected.to_vec()));
    assert_eq!(ManagedFields::read(&record), Ok(managed));
}

#[test]
fn unchanged_entries_are_written_verbatim() {
    let shape = Shape::UNKNOWN;
    let text = r#"{"f:spec":{ ".":{},"f:x":{},"f:list":{"k:{\"b\":1,\"a\":\"1\"}":{}} },"z:later":{}}"#;
    let record = format!(
        r#"[{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{text}}}]"#
    );
    let mut managed = ManagedFields::read(record.as_bytes()).unwrap();
    managed.reconcile(shape);
    let set = |fields: Value| FieldSet::parse(&fields).unwrap();
    let own = managed.0.keys().next().unwrap().clone();
    let now = Timestamp::from_second(1).unwrap();
    managed.add(own.clone(), Entry::new("v1", now, set(json!({"f:spec": {"f:x": {}}}))));
    managed.take_from_others(&set(json!({"f:spec": {"f:y": {}}, "f:x": {}})), None);
    let written = String::from_utf8(managed.record()).unwrap();
    assert!(written.contains(text) && written.contains("1970-01-01T00:00:01Z"), "{written}");
    // Changed entries are encoded again.
    let with = |change: &dyn Fn(&mut ManagedFields)| {
        let mut managed = managed.clone();
        change(&mut managed);
        let written: Value = serde_json::from_slice(&managed.record()).unwrap();
        written[0]["fieldsV1"].clone()
    };
    let list = json!({"k:{\"a\":\"1\",\"b\":1}": {}});
    assert_eq!(
        with(&|managed| managed.add(own.clone(), Entry::new("v1", now, set(json!({"f:y": {}}))))),
        json!({"f:spec": {".": {}, "f:x": {}, "f:list": list}, "f:y": {}})
    );
    assert_eq!(
        with(&|managed| managed.take_from_others(&set(json!({"f:spec": {"f:x": {}}})), None)),
        json!({"f:spec": {".": {}, "f:list": list}})
    );
    assert_eq!(
        with(&|managed| managed.take_from_others(&set(json!({"f:spec": {}})), None)),
        json!({"f:spec": {"f:x": {}, "f:list": list}})
    );
}

#[test]
fn an_entry_without_fields_is_not_written() {
    let entries = json!([entry(|entry| entry["fieldsV1"] = json!({}))]);
    assert!(ManagedFields::read(entries.to_string().as_bytes()).unwrap().record().is_empty());
}

#[test]
fn invalid_records_name_the_error() {
    for (name, value, what) in [
        ("operation", json!("Patch"), "operation must be `Apply` or `Update`"),
        ("operation", Value::Null, "operation must be `Apply` or `Update`"),
        ("apiVersion", json!(""), "apiVersion must not be empty"),
        ("fieldsType", Value::Null, "missing fieldsType"),
        ("fieldsType", json!("FieldsV2"), "invalid fieldsType \"FieldsV2\"; it is FieldsV1"),
        (
            "fieldsV1",
            json!({"x": {}}),
            "fieldsV1: `x` is not a path element; path elements begin with f:, k:, v: or i:",
        ),
        ("fieldsV1", json!([]), "fieldsV1: invalid type: sequence, expected an object of steps"),
        ("fieldsV1", json!({"f:a": 1}), "fieldsV1: invalid type: integer `1`, expected an object of steps"),
        ("time", json!("yesterday"), "time `yesterday` is not a time; write it like 2006-01-02T15:04:05Z"),
        ("manager", json!(1), "invalid type: integer `1`, expected a string"),
    ] {
        let entries = json!([entry(|entry| entry[name] = value)]);
        let why = ManagedFields::read(entries.to_string().as_bytes()).unwrap_err();
        assert!(why.starts_with(&format!("metadata.managedFields[0]: {what}")), "{why}");
    }
    assert_eq!(ManagedFields::read(b"{}"), Err("metadata.managedFields is not a list".to_owned()));
    assert_eq!(
        (ManagedFields::read(b""), ManagedFields::read(b"null")),
        (Ok(ManagedFields::default()), Ok(ManagedFields::default()))
    );
}
