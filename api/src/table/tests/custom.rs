//! Tests of the printer columns of custom resources.

use serde_json::{Value, json};

use super::super::{Columns, CustomColumn, JsonPath};
use super::{CREATED, NOW};

fn column(kind: &str, path: &str) -> CustomColumn {
    let json_path = JsonPath::parse(path).unwrap();
    let (name, format, description) = ("X".to_owned(), String::new(), String::new());
    CustomColumn { name, kind: kind.to_owned(), format, description, priority: 0, json_path }
}

fn object() -> Value {
    json!({
        "metadata": {"name": "a", "creationTimestamp": CREATED, "labels": {"a.b/c": "d"}},
        "spec": {"replicas": 3, "ratio": 0.5, "on": true, "text": "t", "list": ["x", "y"]},
        "status": {"conditions": [{"type": "Old", "status": "True"}, {"type": "Ready", "status": "False"}]},
    })
}

#[test]
fn custom_column_cell_has_the_column_type_or_is_empty() {
    let table: [(&str, &str, Value); 13] = [
        ("integer", ".spec.replicas", json!(3)),
        ("integer", ".spec.ratio", json!(0)),
        ("integer", ".spec.text", json!(null)),
        ("number", ".spec.ratio", json!(0.5)),
        ("boolean", ".spec.on", json!(true)),
        ("boolean", ".spec.text", json!(null)),
        ("string", ".spec.text", json!("t")),
        ("string", ".spec.replicas", json!("3")),
        ("string", ".spec.nothing", json!(null)),
        ("string", ".spec.list[*]", json!("x y")),
        ("string", ".metadata.labels.a\\.b/c", json!("d")),
        ("string", ".status.conditions[?(@.type==\"Ready\")].status", json!("False")),
        ("date", ".metadata.creationTimestamp", json!("5m")),
    ];
    for (kind, path, expected) in table {
        let columns = Columns::custom(vec![column(kind, path)]);
        let cells = columns.cells(object().as_object().unwrap(), NOW.parse().unwrap());
        assert_eq!(cells, [json!("a"), expected], "{kind} {path}");
    }
}

#[test]
fn crd_without_columns_has_the_age_column() {
    let columns = Columns::custom(Vec::new());
    let cells = columns.cells(object().as_object().unwrap(), NOW.parse().unwrap());
    assert_eq!((cells, columns.columns()[0].name.as_str()), (vec![json!("a"), json!("5m")], "Age"));
}
