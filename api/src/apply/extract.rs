//! Which fields an object has, as a set.

use std::collections::HashMap;

use serde_json::Value;

use super::parts::Parts;
use super::set::{Element, Node, Set};
use crate::shape::Shape;

/// Every field that an object of the type `shape` has: what has no parts, elements of lists and keys of maps. A struct is
/// there when a field of it is, and is named only when it is empty.
pub fn extract(object: &Value, shape: Shape<'_>) -> Set {
    below(object, shape).unwrap_or_default()
}

/// The fields below a value; `None` when it has no parts.
fn below(value: &Value, shape: Shape<'_>) -> Option<Set> {
    let mut set = Set::default();
    match Parts::of(value, shape) {
        Parts::Leaf | Parts::Nothing => return None,
        Parts::Fields(fields) => {
            for (name, value) in fields {
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                let named = shape.named(name).is_some();
                set.put(Element::Field(name.clone()), node(value, shape.at(name).shape, is_empty || !named));
            }
        }
        Parts::Elements(values, names, of) => {
            let mut count = HashMap::with_capacity(names.len());
            for name in &names {
                *count.entry(name.clone()).or_insert(0_u32) += 1;
            }
            for (name, value) in names.into_iter().zip(values) {
                // Elements with one name cannot be told apart further.
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
