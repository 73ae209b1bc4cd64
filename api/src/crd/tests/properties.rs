//! Property tests with random schemas and objects.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{crontabs, object};
use crate::crd::{CustomResourceDefinitions, Definition, Schema};
use crate::strategy::{Part, Strategy as _};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Random schemas, mostly valid.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0_i64..3, prop::option::of("[a-c]{0,2}")).prop_map(|(least, default)| {
            let mut schema =
                json!({"type": "string", "minLength": least, "pattern": "^[ab]*$", "format": "duration"});
            if let Some(default) = default {
                schema["default"] = default.into();
            }
            schema
        }),
        (-3_i64..3).prop_map(
            |least| json!({"type": "integer", "minimum": least, "multipleOf": 2, "nullable": true})
        ),
        Just(json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true, "default": 1})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "boolean", "enum": [true]})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(("[a-c]", inner.clone()), 0..4).prop_map(|fields| {
                let properties = Value::Object(fields.into_iter().collect::<Map<_, _>>());
                json!({"type": "object", "properties": properties, "required": ["a"], "default": {}})
            }),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values, "maxProperties": 2})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|items| json!({
                "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            })),
            inner.prop_map(|part| json!({"type": "object", "anyOf": [part.clone()], "not": part.clone(), "oneOf": [part]})),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent(schema in schema(), value in value()) {
        let schema = Schema::read(&json!({"type": "object", "properties": {"spec": schema}}));
        let mut once = json!({"metadata": {}, "spec": value});
        schema.prune(&mut once);
        prop_assert!(schema.fill(&mut once).is_ok());
        let mut twice = once.clone();
        prop_assert!(schema.prune(&mut twice).is_empty() || once != twice);
        prop_assert!(schema.fill(&mut twice).is_ok());
        schema.prune(&mut once);
        prop_assert!(schema.fill(&mut once).is_ok());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn custom_object_validation_never_panics(schema in schema(), value in value(), before in value()) {
        let schema = Schema::read(&json!({"type": "object", "properties": {"spec": schema}}));
        let object = |spec: Value| object(json!({"spec": spec}));
        let (new, old) = (object(value), object(before));
        let all = schema.check(&new, None);
        // An update that changes nothing has no errors. An update of another object has at most the errors of a create.
        prop_assert!(schema.check(&new, Some(&new)).is_empty());
        prop_assert!(schema.check(&new, Some(&old)).len() <= all.len());
    }

    #[test]
    fn crd_validation_never_panics(spec in schema(), noise in value()) {
        let definition = crontabs(spec);
        let causes = CustomResourceDefinitions.validate(&definition, None, &Part::Main);
        prop_assert!(Definition::read(&definition).is_some());
        drop(causes);
        for place in ["schema", "subresources", "additionalPrinterColumns", "name", "selectableFields"] {
            let mut definition = definition.clone();
            definition["spec"]["versions"][0][place] = noise.clone();
            drop(CustomResourceDefinitions.validate(&definition, Some(&definition), &Part::Main));
            drop(CustomResourceDefinitions.warnings(&definition));
            drop(Definition::read(&definition));
        }
        drop(CustomResourceDefinitions.validate(&crontabs(noise.clone()), None, &Part::Main));
        drop(Schema::read(&noise).check(&object(json!({"a": noise})), None));
    }
}
