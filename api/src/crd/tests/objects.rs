//! Tests of pruning, defaulting, validating and merging custom resources.

use serde_json::{Map, Value, json};

use super::{messages, object};
use crate::crd::Schema;
use crate::shape::{Form, List, Shape};
use crate::strategy::{DefaultsTooLarge, MAX_DEFAULT_BYTES};

fn schema(spec: Value) -> Schema {
    Schema::read(&json!({"type": "object", "properties": {"spec": spec}}))
}

/// The validation errors of this `spec`.
fn wrong(schema: &Schema, spec: Value) -> Vec<String> {
    messages(
        &schema
            .check(&object(json!({"apiVersion": "a/v1", "kind": "A", "metadata": {}, "spec": spec})), None),
    )
}

#[test]
fn errors_use_stock_messages() {
    let cases: &[(Value, Value, &[&str])] = &[
        (
            json!({"type": "integer"}),
            json!("ten"),
            &["spec: Invalid value: \"string\": spec in body must be of type integer: \"string\""],
        ),
        (
            json!({"type": "string"}),
            json!(3),
            &["spec: Invalid value: \"integer\": spec in body must be of type string: \"integer\""],
        ),
        (
            json!({"type": "string"}),
            json!(null),
            &["spec: Invalid value: \"null\": spec in body must be of type string: \"null\""],
        ),
        (json!({"type": "string", "nullable": true}), json!(null), &[]),
        (json!({"type": "integer"}), json!(3.0), &[]),
        (
            json!({"type": "integer"}),
            json!(3.5),
            &["spec: Invalid value: \"number\": spec in body must be of type integer: \"number\""],
        ),
        (json!({"type": "number"}), json!(3), &[]),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}}}),
            json!({"a": "x"}),
            &["spec.b: Required value"],
        ),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 10}),
            json!(0),
            &["spec: Invalid value: 0: spec in body should be greater than or equal to 1"],
        ),
        (
            json!({"type": "integer", "maximum": 10, "exclusiveMaximum": true}),
            json!(10),
            &["spec: Invalid value: 10: spec in body should be less than 10"],
        ),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            json!(0.35),
            &["spec: Invalid value: 0.35: spec in body should be a multiple of 0.1"],
        ),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            &["spec: Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A1"),
            &["spec: Invalid value: \"A1\": spec in body should match '^[a-z]+$'"],
        ),
        (json!({"type": "string", "pattern": "^\\pL+$"}), json!("1"), &[]),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("abc"),
            &["spec: Too long: may not be more than 2 bytes"],
        ),
        (json!({"type": "string", "maxLength": 2}), json!("äö"), &[]),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            &["spec: Invalid value: \"a\": spec in body should be at least 2 chars long"],
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("noon"),
            &["spec: Invalid value: \"noon\": spec in body must be of type date-time: \"noon\""],
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}),
            json!([1, "b"]),
            &[
                "spec: Too many: 2: must have at most 1 item",
                "spec[1]: Invalid value: \"string\": spec[1] in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b", "a"]),
            &["spec[2]: Duplicate value: \"a\""],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
                   "items": {"type": "object", "properties": {
                       "n": {"type": "string"}, "p": {"type": "string", "default": "TCP"}, "v": {"type": "integer"}}}}),
            json!([{"n": "a", "v": 1}, {"n": "a", "p": "UDP"}, {"n": "a", "p": "TCP"}]),
            &["spec[2]: Duplicate value: {\"n\":\"a\",\"p\":\"TCP\"}"],
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%"), &[]),
        (json!({"x-kubernetes-int-or-string": true}), json!(5), &[]),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            &["spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\""],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
            json!({"x": 1}),
            &["spec.x: Invalid value: \"integer\": spec.x in body must be of type boolean: \"integer\""],
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({}),
            &["spec: Invalid value: 0: spec in body should have at least 1 properties"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                   "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"a": "1", "b": "2"}),
            &[
                "spec: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}),
            json!({}),
            &[
                "spec: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)",
                "spec.a: Required value",
            ],
        ),
        (
            json!({"type": "integer", "not": {"minimum": 5}, "allOf": [{"minimum": 7}]}),
            json!(6),
            &[
                "spec: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None validated",
                "spec: Invalid value: 6: spec in body should be greater than or equal to 7",
                "spec: Invalid value: \"\": \"spec\" must not validate the schema (not)",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": "Pod"}),
            &["spec.apiVersion: Required value: must not be empty"],
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_u64),
            &["spec: Invalid value: 3000000000: spec in body must be of type int32: \"int64\""],
        ),
    ];
    for (of, spec, expected) in cases {
        assert_eq!(wrong(&schema(of.clone()), spec.clone()), *expected, "{spec} of {of}");
    }
}

#[test]
fn formats_are_validated() {
    for (format, right, not) in [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-01T00:00:00.5+01:00", "2024-01-01"),
        ("duration", "1h30m", "soon"),
        ("byte", "aGk=", "?"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "fe80::1", "fe80"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("hostname", "a.example.com", "a_.-"),
        ("email", "me@example.com", "me"),
        ("uri", "https://example.com/x", "no uri"),
    ] {
        let of = schema(json!({"type": "string", "format": format}));
        assert!(wrong(&of, json!(right)).is_empty(), "{right} is a {format}");
        assert_eq!(wrong(&of, json!(not)).len(), 1, "{not} is no {format}");
    }
    assert!(wrong(&schema(json!({"type": "string", "format": "of-our-own"})), json!("x")).is_empty());
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let of = schema(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "typed": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let mut value = json!({
        "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "labels": {"a": "b"}}, "extra": 1,
        "spec": {
            "known": "k", "unknown": 1,
            "free": {"any": {"thing": 1}, "typed": {"a": "x", "b": 2}},
            "labels": {"x": "y"},
            "list": [{"a": "x"}, {"a": "x", "c": 1}],
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {"gone": 1}, "status": {}},
        },
    });
    let mut unknown = of.prune(&mut value);
    unknown.sort();
    let expected = [
        "extra",
        "spec.free.typed.b",
        "spec.list[1].c",
        "spec.pod.spec.gone",
        "spec.pod.status",
        "spec.unknown",
    ];
    assert_eq!(unknown, expected);
    assert_eq!(
        value["spec"],
        json!({
            "known": "k", "free": {"any": {"thing": 1}, "typed": {"a": "x"}}, "labels": {"x": "y"},
            "list": [{"a": "x"}, {"a": "x"}],
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {}},
        })
    );
    assert_eq!(value["metadata"], json!({"name": "x", "labels": {"a": "b"}}));
    assert!(value.get("extra").is_none());
}

#[test]
fn defaults_are_set_in_existing_objects() {
    let of = schema(json!({"type": "object", "default": {}, "properties": {
        "image": {"type": "string", "default": "busybox"},
        "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 7}}},
        "absent": {"type": "object", "properties": {"deep": {"type": "integer", "default": 7}}},
        "maybe": {"type": "string", "nullable": true, "default": "x"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"z": {"type": "integer", "default": 1}}}},
        "plain": {"type": "string"},
    }}));
    for (spec, expected) in [
        (None, json!({"image": "busybox", "nested": {"deep": 7}, "maybe": "x"})),
        (
            Some(
                json!({"image": null, "maybe": null, "plain": null, "list": [{}, {"p": "UDP"}], "map": {"a": {}}}),
            ),
            json!({"image": "busybox", "maybe": null, "nested": {"deep": 7}, "list": [{"p": "TCP"}, {"p": "UDP"}],
                   "map": {"a": {"z": 1}}}),
        ),
        (
            Some(json!({"nested": {"deep": 1}, "absent": {}})),
            json!({"image": "busybox", "maybe": "x", "nested": {"deep": 1}, "absent": {"deep": 7}}),
        ),
    ] {
        let mut value = json!({"kind": "A"});
        if let Some(spec) = spec {
            value["spec"] = spec;
        }
        of.fill(&mut value).unwrap();
        assert_eq!(value["spec"], expected);
    }
}

#[test]
fn defaults_that_would_make_an_object_too_large_are_refused() {
    let default = "x".repeat(14_000);
    let element = json!({"type": "object", "properties": {"large": {"type": "string", "default": default}}});
    let of = schema(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": element},
        "map": {"type": "object", "additionalProperties": element},
        "nulls": {"type": "array", "items": {"type": "string", "default": default}},
    }}));
    let fields = |count: usize| (0..count).map(|index| (index.to_string(), json!({}))).collect::<Map<_, _>>();
    for spec in [
        json!({"list": vec![json!({}); 52_000]}),
        json!({"map": fields(20_000)}),
        json!({"nulls": vec![Value::Null; 30_000]}),
    ] {
        let mut value = json!({"spec": spec});
        assert_eq!(of.fill(&mut value), Err(DefaultsTooLarge));
        assert!(value.to_string().len() < 2 * MAX_DEFAULT_BYTES, "no more was filled in");
    }
    let mut value = json!({"spec": {"list": vec![json!({}); 100]}});
    assert_eq!(of.fill(&mut value), Ok(()));
}

#[test]
fn unchanged_values_are_not_validated() {
    let of = schema(json!({"type": "object", "properties": {
        "old": {"type": "string", "maxLength": 1}, "new": {"type": "integer"},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {
            "type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}},
    }}));
    let spec = |spec: Value| object(json!({"spec": spec}));
    let before = spec(json!({"old": "long", "new": 1, "list": [{"n": "a", "v": 9}, {"n": "b", "v": 1}]}));
    for (after, expected) in [
        (json!({"old": "long", "new": 2, "list": [{"n": "b", "v": 2}, {"n": "a", "v": 9}]}), vec![]),
        (json!({"old": "longer", "new": 1}), vec!["spec.old: Too long: may not be more than 1 byte"]),
        (
            json!({"old": "long", "list": [{"n": "a", "v": 8}]}),
            vec![
                "spec.list[0].v: Invalid value: 8: spec.list[0].v in body should be less than or equal to 5",
            ],
        ),
    ] {
        assert_eq!(messages(&of.check(&spec(after), Some(&before))), expected);
    }
}

#[test]
fn lists_and_maps_merge_by_their_schema_types() {
    let of = schema(json!({"type": "object", "properties": {
        "atomic": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string", "default": "x"}}}},
        "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }}));
    let root = Shape::of(&of);
    let spec = root.at("spec").shape;
    let form = |name: &str| spec.at(name).shape.form();
    assert!(matches!(form("atomic"), Form::List { list: List::Atomic, .. }));
    assert!(matches!(form("set"), Form::List { list: List::Set, .. }));
    let Form::List { list: List::Map(keys), elements } = form("map") else { panic!("no map") };
    assert_eq!((keys, elements.at("n").default), (&["n".to_owned()][..], Some(&json!("x"))));
    assert!(matches!(form("one"), Form::Struct { atomic: true }));
    assert!(matches!(form("labels"), Form::Map { atomic: false, .. }));
    assert!(matches!(form("any"), Form::Unknown));
    // Metadata is merged as for all kinds.
    let finalizers = root.at("metadata").shape.at("finalizers").shape.form();
    assert!(matches!(finalizers, Form::List { list: List::Set, .. }));
}
