//! Maps schemas to CEL types, and names of fields to CEL identifiers.

use std::borrow::Cow;

use cel::Type;

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

/// Reserved words of CEL.
const KEYWORDS: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];
/// Character sequences that an identifier cannot contain, with their escape sequences.
const SIGNS: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// The CEL identifier for a field; `None` if the name cannot be escaped.
pub(super) fn escaped(name: &str) -> Option<Cow<'_, str>> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__").into());
    }
    let mut rest = name;
    let mut text = String::with_capacity(name.len());
    while let Some(first) = rest.chars().next() {
        if let Some((sign, word)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            text.push_str(word);
            rest = &rest[sign.len()..];
            continue;
        }
        let is_start = rest.len() == name.len();
        if !(first == '_' || first.is_ascii_alphabetic() || (first.is_ascii_digit() && !is_start)) {
            return None;
        }
        text.push(first);
        rest = &rest[1..];
    }
    if text == name { Some(name.into()) } else { (!text.is_empty()).then(|| text.into()) }
}
