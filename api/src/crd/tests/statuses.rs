//! Tests of name conflicts and conditions.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{crontabs, set};
use crate::crd::{Names, UsedNames, calculated_status, is_established, with_status};
use crate::strategy::Json;

fn plain() -> Json {
    crontabs(json!({"type": "object"}))
}

fn settle(definition: &Json, others: &[Json], second: i64) -> Json {
    let taken =
        UsedNames::by(others.iter(), "stable.example.com", definition["metadata"]["name"].as_str().unwrap());
    with_status(definition, calculated_status(definition, &taken, Timestamp::from_second(second).unwrap()))
}

fn condition<'a>(definition: &'a Json, name: &str) -> Option<&'a Value> {
    definition["status"]["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == name)
}

#[test]
fn crd_without_name_conflicts_is_established() {
    let definition = settle(&plain(), &[], 0);
    assert!(is_established(&definition));
    assert_eq!(condition(&definition, "NamesAccepted").unwrap()["reason"], "NoConflicts");
    assert_eq!(
        Names::read(definition["status"].get("acceptedNames")),
        Names::read(definition["spec"].get("names"))
    );
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    // A second calculation changes nothing, not even timestamps.
    assert_eq!(settle(&definition, std::slice::from_ref(&definition), 60), definition);
}

#[test]
fn conflicting_crd_name_is_not_accepted() {
    let first = settle(&plain(), &[], 0);
    let mut second = plain();
    set(&mut second, "/metadata/name", json!("tabs.stable.example.com"));
    set(
        &mut second,
        "/spec/names",
        json!({"plural": "tabs", "singular": "tab", "kind": "CronTab", "listKind": "TabList", "shortNames": ["ct"]}),
    );
    let second = settle(&second, std::slice::from_ref(&first), 0);
    assert!(!is_established(&second));
    let messages = condition(&second, "NamesAccepted").unwrap();
    assert_eq!(
        (&messages["status"], &messages["message"]),
        (&json!("False"), &json!("\"ct\" is already in use"))
    );
    assert_eq!(condition(&second, "Established").unwrap()["reason"], "NotAccepted");
    assert_eq!(
        second["status"]["acceptedNames"],
        json!({"kind": "", "plural": "tabs", "singular": "tab", "listKind": "TabList"})
    );

    // When the first definition is deleted, its names are free.
    let second = settle(&second, &[], 5);
    assert!(is_established(&second));
    assert_eq!(condition(&second, "NamesAccepted").unwrap()["lastTransitionTime"], "1970-01-01T00:00:05Z");
}

#[test]
fn established_crd_stays_established_after_a_conflicting_name_change() {
    let first = settle(&plain(), &[], 0);
    let mut second = plain();
    set(&mut second, "/metadata/name", json!("tabs.stable.example.com"));
    set(
        &mut second,
        "/spec/names",
        json!({"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList"}),
    );
    let mut second = settle(&second, std::slice::from_ref(&first), 0);
    set(&mut second, "/spec/names/shortNames", json!(["ct"]));
    let second = settle(&second, std::slice::from_ref(&first), 0);
    assert!(is_established(&second));
    assert_eq!(condition(&second, "NamesAccepted").unwrap()["status"], "False");
}

#[test]
fn stored_versions_keep_every_storage_version() {
    let mut definition = settle(&plain(), &[], 0);
    set(&mut definition, "/spec/versions/0/name", json!("v2"));
    assert_eq!(settle(&definition, &[], 0)["status"]["storedVersions"], json!(["v1", "v2"]));
}
