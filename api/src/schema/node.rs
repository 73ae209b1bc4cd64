//! The table of all types as patches and server-side apply see it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;

use super::all::{Struct, all};
use super::field::{self, Apply};
use super::types::Kind;
use crate::shape::{Field, Form, List, Node, Patch, Shape};

/// A type of the table.
#[derive(Debug)]
enum TableNode {
    /// A value without parts.
    Scalar,
    /// Anything: nothing is known of its parts.
    Any,
    /// An object with named fields.
    Struct { of: &'static Struct, atomic: bool },
    /// A list.
    List { elements: Box<TableNode>, keys: ListKeys },
    /// A map.
    Map { values: Box<TableNode>, atomic: bool },
}

/// How the elements of a list are told apart.
#[derive(Debug)]
enum ListKeys {
    Atomic,
    Set,
    By(Box<[String]>),
}

/// The shape of a kind; unknown for a kind that is not in the table.
pub fn shape(api_version: &str, kind: &str) -> Shape<'static> {
    all()
        .kind_of(api_version, kind)
        .map_or(Shape::UNKNOWN, |of| Shape::of(node_of(of, "", || struct_node(of))))
}

/// The node of a field, or of the type itself for an empty name. Made once: the table is part of the program, so are
/// what is made of it.
fn node_of(of: &'static Struct, name: &'static str, make: impl FnOnce() -> TableNode) -> &'static TableNode {
    type Nodes = HashMap<(&'static str, &'static str), &'static TableNode>;
    static NODES: LazyLock<Mutex<Nodes>> = LazyLock::new(Mutex::default);
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    nodes.entry((of.name, name)).or_insert_with(|| Box::leak(Box::new(make())))
}

fn struct_node(of: &'static Struct) -> TableNode {
    TableNode::Struct { of, atomic: of.atomic }
}

/// The type of a field; `apply` is what the field says of the outermost part of it.
fn node(kind: &'static Kind, apply: &Apply) -> TableNode {
    let atomic = *apply == Apply::Atomic;
    match kind {
        Kind::Object(name) => match all().get(name) {
            Some(of) => TableNode::Struct { of, atomic: atomic || of.atomic },
            None => TableNode::Any,
        },
        Kind::List(elements) => {
            let keys = match apply {
                Apply::Atomic | Apply::Granular => ListKeys::Atomic,
                Apply::Set => ListKeys::Set,
                Apply::MapBy(keys) => ListKeys::By(keys.iter().map(|key| (*key).to_owned()).collect()),
            };
            TableNode::List { elements: Box::new(node(elements, &Apply::Granular)), keys }
        }
        Kind::Map(values) => TableNode::Map { values: Box::new(node(values, &Apply::Granular)), atomic },
        Kind::Any => TableNode::Any,
        _ => TableNode::Scalar,
    }
}

impl Node for TableNode {
    fn form(&self) -> Form<'_> {
        match self {
            Self::Scalar => Form::Scalar,
            Self::Any => Form::Unknown,
            Self::Struct { atomic, .. } => Form::Struct { atomic: *atomic },
            Self::List { elements, keys } => Form::List {
                elements: Shape::of(&**elements),
                list: match keys {
                    ListKeys::Atomic => List::Atomic,
                    ListKeys::Set => List::Set,
                    ListKeys::By(keys) => List::Map(keys),
                },
            },
            Self::Map { values, atomic } => Form::Map { values: Shape::of(&**values), atomic: *atomic },
        }
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        let Self::Struct { of, .. } = self else { return None };
        let of: &'static Struct = of;
        let field = of.field(name)?;
        Some(Field {
            shape: Shape::of(node_of(of, field.name, || node(&field.kind, &field.apply))),
            patch: match field.patch {
                field::Patch::Usual | field::Patch::RetainKeys => Patch::Plain,
                field::Patch::MergeBy(key) | field::Patch::MergeRetainKeysBy(key) => Patch::MergeBy(key),
                field::Patch::MergeValues => Patch::Merge,
            },
            default: field.default.map(default),
        })
    }
}

/// A default of the table as a value; there are few.
fn default(text: &'static str) -> &'static Value {
    static DEFAULTS: LazyLock<Mutex<HashMap<&'static str, &'static Value>>> = LazyLock::new(Mutex::default);
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    defaults.entry(text).or_insert_with(|| Box::leak(Box::new(text.into())))
}

#[cfg(test)]
mod tests;
