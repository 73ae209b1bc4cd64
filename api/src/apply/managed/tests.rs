//! Entries that read, and those that do not.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::Managed;

fn entry(change: impl FnOnce(&mut Value)) -> Value {
    let mut entry = json!({
        "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}},
    });
    change(&mut entry);
    entry
}

#[test]
fn entries_print_as_they_read() {
    let entries = json!([
        entry(|entry| entry["operation"] = "Apply".into()),
        entry(|entry| drop(entry.as_object_mut().unwrap().remove("time"))),
        entry(|_| {}),
        entry(|entry| entry["subresource"] = "status".into()),
        entry(|entry| entry["time"] = "2026-01-02T03:04:06Z".into()),
        entry(|entry| entry["manager"] = "a".into()),
    ]);
    let managed = Managed::read(Some(&entries)).unwrap();
    let mut object = json!({});
    managed.put(object.as_object_mut().unwrap());
    // The oldest first, appliers before all; of two entries of one manager the later one counts.
    let expected = [0, 5, 3, 4].map(|index| entries[index].clone());
    assert_eq!(object["metadata"]["managedFields"], Value::from(expected.to_vec()));
    assert_eq!(Managed::read(Managed::take(object.as_object_mut().unwrap()).as_ref()), Ok(managed));
    assert_eq!(object, json!({"metadata": {}}));
}

#[test]
fn an_entry_without_fields_is_not_written() {
    let managed = Managed::read(Some(&json!([entry(|entry| entry["fieldsV1"] = json!({}))]))).unwrap();
    let mut object = json!({"metadata": {"managedFields": 1}});
    managed.put(object.as_object_mut().unwrap());
    assert_eq!(object, json!({"metadata": {}}));
}

#[test]
fn what_does_not_read_says_why() {
    for (name, value, what) in [
        ("operation", json!("Patch"), "operation must be `Apply` or `Update`"),
        ("operation", Value::Null, "operation must be `Apply` or `Update`"),
        ("apiVersion", json!(""), "apiVersion must not be empty"),
        ("fieldsType", Value::Null, "missing fieldsType"),
        ("fieldsType", json!("FieldsV2"), "invalid fieldsType \"FieldsV2\"; it is FieldsV1"),
        ("fieldsV1", json!({"x": {}}), "`x` is no step; steps begin with f:, k:, v: or i:"),
        ("fieldsV1", json!([]), "fieldsV1 is no object"),
        ("time", json!("yesterday"), "time `yesterday` is no time; write it like 2006-01-02T15:04:05Z"),
        ("manager", json!(1), "manager is 1, which is no string"),
    ] {
        let entries = json!([entry(|entry| entry[name] = value)]);
        assert_eq!(Managed::read(Some(&entries)), Err(format!("metadata.managedFields[0]: {what}")));
    }
    assert!(Managed::read(Some(&json!({}))).is_err());
    assert_eq!(Managed::read(None), Ok(Managed::default()));
}
