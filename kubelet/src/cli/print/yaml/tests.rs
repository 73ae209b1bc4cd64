//! YAML output that parses to the original value.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{document, sorted};

#[test]
fn yaml_equals_the_output_of_kubectl() {
    let object = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "labels": {}, "annotations": {"a/b": "true", "n": "12", "t": "2026-01-01T00:00:00Z"}},
        "spec": {
            "containers": [{"name": "c", "args": ["-c", "a: b", "echo hi\nexit 0\n", "", "--flag=x"], "ports": []}],
            "list": [[1, 2], ["x"]],
            "none": null,
        },
    });
    let expected = "\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    a/b: \"true\"
    \"n\": \"12\"
    t: \"2026-01-01T00:00:00Z\"
  labels: {}
  name: web
spec:
  containers:
  - args:
    - -c
    - 'a: b'
    - |
      echo hi
      exit 0
    - \"\"
    - --flag=x
    name: c
    ports: []
  list:
  -
    - 1
    - 2
  -
    - x
  none: null
";
    assert_eq!(document(&sorted(object)), expected);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z:# '\"\\\\\n-]{0,12}",
        "[0-9eExX.:+_-]{1,8}",
        prop::sample::select(vec![
            "yes", "NO", "~", "null", "1e3", "0x1F", "0o7", "1_000", ".5", "-", "- a", "a:", "=", "<<",
            "? x", "!t"
        ])
        .prop_map(str::to_owned),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn printed_yaml_round_trips(inner in tree()) {
        // Wrapped in a map, like every object, because a top-level key such as `<<` would be read as a merge.
        let object = json!({"value": inner});
        let text = document(&object);
        let read = api::decode::value(text.as_bytes());
        prop_assert_eq!(read.map_err(|p| format!("{p}\n{text}")).unwrap(), Some(object), "{}", text);
    }
}
