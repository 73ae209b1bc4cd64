//! Computes the field set of an object.

use std::collections::HashMap;

use serde_json::Value;

use super::field_set::{FieldSet, Node, PathElement};
use super::typed::Typed;
use crate::shape::Shape;

/// Returns all leaf fields, list elements and map keys of an object of the type `shape`. For a struct, its fields are
/// in the set; the struct itself is in the set only if it is empty.
pub fn extract(object: &Value, shape: Shape<'_>) -> FieldSet {
    below(object, shape).unwrap_or_default()
}

/// The field set below a value, or `None` if the value has no parts.
fn below(value: &Value, shape: Shape<'_>) -> Option<FieldSet> {
    let mut set = FieldSet::default();
    match Typed::of(value, shape) {
        Typed::Leaf | Typed::Null => return None,
        Typed::Fields(fields) => {
            for (name, value) in fields {
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                let named = shape.named(name).is_some();
                set.put(
                    PathElement::Field(name.clone()),
                    node(value, shape.at(name).shape, is_empty || !named),
                );
            }
        }
        Typed::Elements(values, names, of) => {
            let mut count = HashMap::with_capacity(names.len());
            for name in &names {
                *count.entry(name.clone()).or_insert(0_u32) += 1;
            }
            for (name, value) in names.into_iter().zip(values) {
                // Elements with the same key are one member of the set; the fields below them are not tracked.
                let alone = count.get(&name) == Some(&1);
                set.put(name, if alone { node(value, of, true) } else { Node::leaf() });
            }
        }
    }
    Some(set)
}

fn node(value: &Value, shape: Shape<'_>, member: bool) -> Node {
    below(value, shape).map_or_else(Node::leaf, |children| Node { member, children })
}
