//! Maps schemas to CEL types.

use cel::Type;

use super::escaping::escaped;
use crate::crd::schema::{Additional, Kind, Schema};

/// The CEL type of a value. The types of an embedded resource and of the root include `apiVersion`, `kind` and
/// `metadata`.
pub(in crate::crd) fn type_of(schema: &Schema, is_resource: bool) -> Type {
    known(schema, is_resource).unwrap_or(Type::Dyn)
}

/// The CEL type of a value. `None` if the schema does not define the value, so that expressions cannot access it.
fn known(schema: &Schema, is_resource: bool) -> Option<Type> {
    Some(match schema.kind {
        Kind::IntOrString => Type::Dyn,
        Kind::Any => return None,
        Kind::Boolean => Type::Bool,
        Kind::Integer => Type::Int,
        Kind::Number => Type::Double,
        Kind::String => match schema.rules.as_deref().and_then(|rules| rules.format.as_deref()) {
            Some("byte") => Type::Bytes,
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Timestamp,
            _ => Type::String,
        },
        Kind::Array => Type::list(known_part(schema.items.as_deref()?)?),
        Kind::Object => match &schema.additional {
            Additional::Schema(values) => Type::map(known_part(values)?),
            Additional::Any | Additional::None => object(schema, is_resource),
        },
    })
}

fn known_part(schema: &Schema) -> Option<Type> {
    known(schema, schema.is_embedded)
}

fn object(schema: &Schema, is_resource: bool) -> Type {
    let own = schema
        .properties
        .iter()
        .filter_map(|(name, property)| Some((escaped(name)?.into_owned(), known_part(property)?)));
    let names = |names: &[&str]| {
        let names: Vec<(String, Type)> =
            names.iter().map(|name| ((*name).to_owned(), Type::String)).collect();
        names
    };
    let mut fields: Vec<(String, Type)> = own.collect();
    if is_resource {
        fields.extend(names(&["apiVersion", "kind"]));
        let metadata = Type::object("metadata", names(&["name", "generateName"]));
        fields.push(("metadata".to_owned(), metadata));
    }
    Type::object("object", fields)
}
