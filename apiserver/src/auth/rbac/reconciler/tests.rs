//! Objects that are created, updated and left alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;

/// The objects after the plan was applied.
fn after(mut existing: Objects) -> Objects {
    for change in plan(existing.clone()) {
        let (Change::Create(kind, object) | Change::Update(kind, object) | Change::Replace(kind, object)) =
            change;
        existing.insert(
            (kind.plural(), text(&object, "namespace").to_owned(), text(&object, "name").to_owned()),
            object,
        );
    }
    existing
}

fn role(name: &str) -> Place {
    ("clusterroles", String::new(), name.to_owned())
}

fn shown(changes: &[Change]) -> Vec<String> {
    let shown = |change: &Change| match change {
        Change::Create(_, object) => format!("create {}", text(object, "name")),
        Change::Update(_, object) => format!("update {}", text(object, "name")),
        Change::Replace(_, object) => format!("replace {}", text(object, "name")),
    };
    changes.iter().map(shown).collect()
}

#[test]
fn reconciler_creates_complete_objects_once() {
    let first = plan(Objects::new());
    assert!(first.iter().all(|change| matches!(change, Change::Create(..))), "{:?}", shown(&first));
    let existing = after(Objects::new());
    assert!(Rule::all_of(&existing[&role("admin")]).len() > 20, "aggregated roles begin with their rules");
    assert_eq!(shown(&plan(existing)), [""; 0], "a second start writes nothing");
}

#[test]
fn reconciler_adds_missing_rules_and_removes_none() {
    let check = |name: &str, edit: &dyn Fn(&mut Map<String, Value>), expected: &[&str]| {
        let mut existing = after(Objects::new());
        edit(existing.get_mut(&role(name)).unwrap());
        assert_eq!(shown(&plan(existing.clone())), expected, "{name}");
        assert_eq!(shown(&plan(after(existing))), [""; 0], "{name}: settled");
    };
    let no_rules = |role: &mut Map<String, Value>| drop(role.insert("rules".to_owned(), json!([])));
    check("system:basic-user", &no_rules, &["update system:basic-user"]);
    check(
        "system:basic-user",
        &|role| role["metadata"]["labels"] = Value::Null,
        &["update system:basic-user"],
    );
    check(
        "system:basic-user",
        &|role| role["rules"] = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        &[],
    );
    check("view", &no_rules, &["update view"]);
    check("system:aggregate-to-view", &no_rules, &["update system:aggregate-to-view"]);
    let left_alone = |role: &mut Map<String, Value>| {
        no_rules(role);
        role["metadata"]["annotations"][bootstrap_policy::AUTO_UPDATE] = "false".into();
    };
    check("system:basic-user", &left_alone, &[]);
}

#[test]
fn reconciler_restores_subjects_and_role_of_a_binding() {
    let place = ("clusterrolebindings", String::new(), "system:discovery".to_owned());
    let check = |field: &str, value: Value, expected: &[&str]| {
        let mut existing = after(Objects::new());
        existing.get_mut(&place).unwrap().insert(field.to_owned(), value);
        assert_eq!(shown(&plan(existing.clone())), expected);
        let subjects = after(existing)[&place]["subjects"].as_array().unwrap().len();
        assert_eq!(subjects, if field == "subjects" { 2 } else { 1 });
    };
    check("subjects", json!([{"kind": "User", "name": "joe"}]), &["update system:discovery"]);
    check("roleRef", json!({"kind": "ClusterRole", "name": "view"}), &["replace system:discovery"]);
}
