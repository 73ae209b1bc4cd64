//! Implements [`Shape`] for built-in types, for patches and server-side apply.

use super::field::{self, Apply};
use super::type_table::{Struct, all};
use super::types::Kind;
use crate::shape::{Field, Form, List, Node, Patch, Shape};

/// The shape of a kind; unknown for a kind that is not built in.
pub fn shape(api_version: &str, kind: &str) -> Shape<'static> {
    all().kind_of(api_version, kind).map_or(Shape::UNKNOWN, |of| Shape::of(of))
}

impl Node for Struct {
    fn form(&self) -> Form<'_> {
        Form::Struct { atomic: self.atomic }
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        let field = self.field(name)?;
        Some(Field {
            shape: Shape::of(field),
            patch: match field.patch {
                field::Patch::Usual | field::Patch::RetainKeys => Patch::Plain,
                field::Patch::MergeBy(key) | field::Patch::MergeRetainKeysBy(key) => Patch::MergeBy(key),
                field::Patch::MergeValues => Patch::Merge,
            },
            default: field.default.as_ref(),
        })
    }
}

/// The type of a field's value, with the merge strategies of the field.
impl Node for field::Field {
    fn form(&self) -> Form<'_> {
        form(&self.kind, &self.apply)
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        Node::field(&self.kind, name)
    }
}

/// The type of list elements and map values, without merge strategies.
impl Node for Kind {
    fn form(&self) -> Form<'_> {
        form(self, &Apply::Granular)
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        match self {
            Self::Object(of) => Node::field(all().get(of)?, name),
            _ => None,
        }
    }
}

fn form<'a>(kind: &'a Kind, apply: &'a Apply) -> Form<'a> {
    let atomic = *apply == Apply::Atomic;
    match kind {
        Kind::Object(name) => match all().get(name) {
            Some(of) => Form::Struct { atomic: atomic || of.atomic },
            None => Form::Unknown,
        },
        Kind::List(elements) => Form::List {
            elements: Shape::of(&**elements),
            list: match apply {
                Apply::Atomic | Apply::Granular => List::Atomic,
                Apply::Set => List::Set,
                Apply::MapBy(keys) => List::Map(keys),
            },
        },
        Kind::Map(values) => Form::Map { values: Shape::of(&**values), atomic },
        Kind::Any => Form::Unknown,
        _ => Form::Scalar,
    }
}

#[cfg(test)]
mod tests;
