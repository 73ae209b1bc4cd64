//! Tests of JSONPath.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::JsonPath;

fn object() -> Value {
    json!({
        "a": {"b": [1, 2, 3, 4], "c.d": "dotted", "e": {"name": "deep"}},
        "name": "top",
        "items": [{"type": "x", "n": 1}, {"type": "y", "n": 2, "tag": true}, {"type": "z]", "n": 3}],
    })
}

#[test]
fn paths_select_values() {
    let table: [(&str, Value); 26] = [
        ("", json!([object()])),
        (".", json!([object()])),
        (".name", json!(["top"])),
        ("{.name}", json!(["top"])),
        ("$.name", json!(["top"])),
        (".a.b", json!([[1, 2, 3, 4]])),
        (".a.b[0]", json!([1])),
        (".a.b[-1]", json!([4])),
        (".a.b[9]", json!([])),
        (".a.b[-9]", json!([])),
        (".a.b[1:3]", json!([2, 3])),
        (".a.b[:-1]", json!([1, 2, 3])),
        (".a.b[2:]", json!([3, 4])),
        (".a.b[3:1]", json!([])),
        (".a.b[*]", json!([1, 2, 3, 4])),
        (".a['c.d']", json!(["dotted"])),
        (".a.c\\.d", json!(["dotted"])),
        ("..name", json!(["top", "deep"])),
        (".items[*].n", json!([1, 2, 3])),
        (".items[?(@.type==\"y\")].n", json!([2])),
        (".items[?(@.type=='z]')].n", json!([3])),
        (".items[?(@.n>=2)].type", json!(["y", "z]"])),
        (".items[?(@.n != 2)].n", json!([1, 3])),
        (".items[?(@.tag)].n", json!([2])),
        (".items[?(@.tag==true)].n", json!([2])),
        (".name.further", json!([])),
    ];
    for (path, expected) in table {
        let object = object();
        let found: Vec<Value> = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
        assert_eq!(Value::from(found), expected, "{path}");
    }
}

#[test]
fn invalid_json_paths_are_reported() {
    let long = ".a".repeat(100);
    for path in [
        "name",
        ".a[",
        ".a[x]",
        ".a[]",
        ".a..",
        ".a[?(b)]",
        ".a[?(@.b==c)]",
        ".a[?(@[?(@.x)])]",
        ".a\\",
        &long,
    ] {
        let error = JsonPath::parse(path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("\"{path}\" is not a valid JSONPath: ")), "{error}");
    }
}

proptest! {
    #[test]
    fn json_path_parser_never_panics(path in "[.a-c0-9\\[\\]*?@()='\":\\\\$-]{0,20}") {
        if let Ok(path) = JsonPath::parse(&path) {
            path.find(&object());
        }
    }
}
