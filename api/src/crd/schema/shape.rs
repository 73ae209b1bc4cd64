//! Implements [`Shape`] for schemas, for patches and server-side apply.

use super::{Additional, Kind, ListType, Schema};
use crate::shape::{Field, Form, List, Node, Patch, Shape};

impl Node for Schema {
    fn form(&self) -> Form<'_> {
        match self.kind {
            Kind::Any => Form::Unknown,
            Kind::String | Kind::Integer | Kind::Number | Kind::Boolean | Kind::IntOrString => Form::Scalar,
            Kind::Array => Form::List {
                elements: self.items.as_deref().map_or(Shape::UNKNOWN, |items| Shape::of(items)),
                list: match &self.list {
                    ListType::Atomic => List::Atomic,
                    ListType::Set => List::Set,
                    ListType::Map(keys) => List::Map(keys),
                },
            },
            Kind::Object => {
                let atomic = self.is_atomic;
                match &self.additional {
                    Additional::Schema(values) if self.properties.is_empty() => {
                        Form::Map { values: Shape::of(&**values), atomic }
                    }
                    Additional::Any if self.properties.is_empty() => {
                        Form::Map { values: Shape::UNKNOWN, atomic }
                    }
                    // An object without properties that preserves unknown fields is treated as a map.
                    _ if self.properties.is_empty() && self.preserves && !self.is_embedded => {
                        Form::Map { values: Shape::UNKNOWN, atomic }
                    }
                    Additional::None | Additional::Any | Additional::Schema(_) => Form::Struct { atomic },
                }
            }
        }
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        if self.is_meta(name) {
            // Metadata is the same for all kinds; any built-in kind has it.
            return crate::schema::shape("v1", "ConfigMap").named(name);
        }
        let property = self.property(name)?;
        let shape = Shape::of(property);
        Some(Field { shape, patch: Patch::Plain, default: property.default.as_deref() })
    }
}
