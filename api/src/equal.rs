//! Compares JSON objects. The comparison is fastest if both objects have their fields in the same order.

use serde_json::{Map, Value};

/// True for equal values, independent of the order of fields.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => equal_fields(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        _ => a == b,
    }
}

/// True for objects with equal fields in any order.
pub fn equal_fields(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len() && beside(a, b).all(|(_, a, b)| b.is_some_and(|b| equal(a, b)))
}

/// Iterates over the fields of `a`, each with the field of the same name in `b`.
pub fn beside<'a, 'b>(
    a: &'a Map<String, Value>,
    b: &'b Map<String, Value>,
) -> impl Iterator<Item = (&'a String, &'a Value, Option<&'b Value>)> {
    let mut likely = b.iter();
    a.iter().map(move |(name, value)| {
        let same = likely.next().filter(|(other, _)| *other == name).map(|(_, other)| other);
        (name, value, same.or_else(|| b.get(name)))
    })
}

#[cfg(test)]
mod tests {
    //! Compares the results with the equality of `serde_json`.
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn trees() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::vec(("[a-c]", inner), 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn the_order_of_fields_does_not_count() {
        assert!(equal(&json!({"a": 1, "b": [{"x": 1, "y": 2}]}), &json!({"b": [{"y": 2, "x": 1}], "a": 1})));
        assert!(!equal(&json!({"a": 1, "b": 2}), &json!({"a": 1, "c": 2})));
        assert!(!equal(&json!({"a": null}), &json!({})));
        assert!(!equal(&json!(1), &json!(1.0)));
    }

    proptest! {
        #[test]
        fn equal_matches_serde_json(a in trees(), b in trees()) {
            prop_assert_eq!(equal(&a, &b), a == b);
            prop_assert!(equal(&a, &a.clone()));
        }
    }
}
