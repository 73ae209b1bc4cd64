//! Removes fields from an object, and determines which fields an applier no longer wants.

use serde_json::Value;

use super::extract::extract;
use super::field_set::{FieldSet, Node, PathElement};
use super::typed::Typed;
use crate::shape::{Form, Shape};

/// Removes all fields in `set` from the value.
pub(super) fn remove(value: &mut Value, set: &FieldSet, shape: Shape<'_>) {
    if set.is_empty() {
        return;
    }
    let names = match Typed::of(value, shape) {
        Typed::Leaf | Typed::Null => return,
        Typed::Fields(_) => Vec::new(),
        Typed::Elements(_, names, _) => names,
    };
    match (value, shape.form()) {
        (Value::Object(fields), _) => {
            fields.retain(|name, value| {
                keep(value, set.node(&PathElement::Field(name.clone())), shape.at(name).shape)
            });
        }
        (Value::Array(values), Form::List { elements, .. }) => {
            let mut names = names.iter();
            values.retain_mut(|value| keep(value, names.next().and_then(|name| set.node(name)), elements));
        }
        _ => {}
    }
}

/// Returns false if the value must be removed; otherwise removes the parts below it.
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

/// Removes from `merged` the fields that the applier owned before (`last`) and that no manager owns now (`owned`).
pub(super) fn prune(merged: Value, last: FieldSet, owned: FieldSet, shape: Shape<'_>) -> Value {
    if last.clone().difference(&owned).is_empty() {
        return merged;
    }
    let last = last.with_structs(shape);
    let fields = |value: &Value| extract(value, shape).with_structs(shape);
    let without = |set: &FieldSet| {
        let mut value = merged.clone();
        remove(&mut value, set, shape);
        value
    };
    // Remove all fields of `last`, then restore fields with an owner, then restore fields outside of `last`.
    let all = fields(&merged);
    let left = fields(&without(&last));
    let kept = fields(&without(&all.clone().difference(&left.union(owned.with_structs(shape)))));
    without(&all.difference(&kept).intersection(&last))
}
