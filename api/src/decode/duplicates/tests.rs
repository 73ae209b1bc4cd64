//! Tests of duplicate fields.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn messages(read: &WithDuplicates) -> Vec<&str> {
    read.duplicates.iter().map(|duplicate| duplicate.message.as_str()).collect()
}

#[test]
fn json_duplicates_are_reported_once_and_the_last_one_wins() {
    let text = r#"{"spec": {"replicas": 1, "replicas": 2, "replicas": 3,
        "containers": [{"image": "a"}, {"image": "b", "image": "c"}]}, "a": {"b": 1, "b": {"x": 1, "x": 2}}}"#;
    let read = json(text.as_bytes()).unwrap();
    let expected = ["spec.replicas", "spec.containers[1].image", "a.b.x", "a.b"];
    assert_eq!(messages(&read), expected.map(|path| format!("duplicate field \"{path}\"")));
    let value = json!({"spec": {"replicas": 3, "containers": [{"image": "a"}, {"image": "c"}]}, "a": {"b": {"x": 2}}});
    assert_eq!(read.value, value);
}

#[test]
fn yaml_duplicates_are_reported_with_lines() {
    let read = yaml("a: 1\nspec:\n  paused: true\n  paused: false\na: 2\n").unwrap();
    assert_eq!(
        messages(&read),
        [r#"line 4: key "paused" already set in map"#, r#"line 5: key "a" already set in map"#]
    );
    assert_eq!(read.value, json!({"a": 2, "spec": {"paused": false}}));
    assert_eq!(read.duplicates[0].path, "spec.paused");
    assert_eq!(yaml("# nothing\n").unwrap(), WithDuplicates::default());
}

#[test]
fn unreadable_input_is_an_error() {
    let deep = "[".repeat(10_000);
    for text in ["", "{", "{\"a\": 1} 2", "{a: 1}", &deep] {
        assert!(json(text.as_bytes()).is_err(), "{text:.20}");
    }
    let bomb: String = (0..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, at| {
        format!("{text}a{}: &a{} [{}]\n", at + 1, at + 1, vec![format!("*a{at}"); 9].join(", "))
    });
    for text in ["a: [", &deep, &bomb] {
        assert!(yaml(text).is_err(), "{text:.20}");
    }
}

#[test]
fn reported_duplicates_are_limited() {
    let text = format!(
        "{{{}\"a\": 1}}",
        (0..1000).map(|at| format!("\"k{at}\": 1, \"k{at}\": 2, ")).collect::<String>()
    );
    assert_eq!(json(text.as_bytes()).unwrap().duplicates.len(), MAX_REPORTED);
}

proptest! {
    #[test]
    fn json_without_duplicates(text in "[\\[\\]{}\",:a-c0-9. e-]{0,60}") {
        let (ours, plain) = (json(text.as_bytes()), serde_json::from_str::<Value>(&text));
        prop_assert_eq!(ours.map(|read| read.value).ok(), plain.ok());
    }
}

#[test]
fn a_json_document_with_too_many_values_is_refused() {
    let list = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count - 1));
    // The object and its list count as values too.
    assert!(json(list(JSON_VALUES - 2).as_bytes()).is_ok());
    let error = json(list(JSON_VALUES - 1).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("more than 500000 values"), "{error}");
}
