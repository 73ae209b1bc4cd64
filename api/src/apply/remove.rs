//! Takes fields out of an object, and decides which ones an applier no longer wants there.

use serde_json::Value;

use super::extract::extract;
use super::parts::Parts;
use super::set::{Element, Node, Set};
use crate::shape::{Form, Shape};

/// Takes every field of `set` out of the value.
pub(super) fn remove(value: &mut Value, set: &Set, shape: Shape<'_>) {
    if set.is_empty() {
        return;
    }
    let names = match Parts::of(value, shape) {
        Parts::Leaf | Parts::Nothing => return,
        Parts::Fields(_) => Vec::new(),
        Parts::Elements(_, names, _) => names,
    };
    match (value, shape.form()) {
        (Value::Object(fields), _) => {
            fields.retain(|name, value| {
                keep(value, set.node(&Element::Field(name.clone())), shape.at(name).shape)
            });
        }
        (Value::Array(values), Form::List { elements, .. }) => {
            let mut names = names.iter();
            values.retain_mut(|value| keep(value, names.next().and_then(|name| set.node(name)), elements));
        }
        _ => {}
    }
}

/// False for what goes as a whole; takes out what goes in part.
fn keep(value: &mut Value, node: Option<&Node>, shape: Shape<'_>) -> bool {
    match node {
        None => true,
        Some(node) if node.member => false,
        Some(node) => {
            remove(value, &node.children, shape);
            true
        }
    }
}

/// Takes out of `merged` what the applier owned by `last` and nobody owns any more, himself included: `owned` is what
/// all managers own now.
pub(super) fn prune(merged: Value, last: Set, owned: Set, shape: Shape<'_>) -> Value {
    if last.clone().difference(&owned).is_empty() {
        return merged;
    }
    let last = last.with_structs(shape);
    let fields = |value: &Value| extract(value, shape).with_structs(shape);
    let without = |set: &Set| {
        let mut value = merged.clone();
        remove(&mut value, set, shape);
        value
    };
    // First everything he had, then back what is owned, then back what was never his.
    let all = fields(&merged);
    let left = fields(&without(&last));
    let kept = fields(&without(&all.clone().difference(&left.union(owned.with_structs(shape)))));
    without(&all.difference(&kept).intersection(&last))
}
