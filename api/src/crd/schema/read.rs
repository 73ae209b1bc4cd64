//! Parses an `openAPIV3Schema`.

use serde_json::{Map, Number, Value};

use super::{Additional, Bound, Kind, ListType, MAX_DEPTH, Pattern, Range, Schema, ValueValidation};

impl Schema {
    /// Parses the schema of a version. Invalid parts are ignored: validation rejects them on writes, but another server
    /// with other rules may have stored them.
    pub fn read(schema: &Value) -> Self {
        Self { is_embedded: true, ..read(schema, 0) }.with_rules(schema)
    }

    /// Parses a part of a schema.
    pub(in crate::crd) fn read_part(schema: &Value) -> Self {
        read(schema, 0)
    }
}

fn read(schema: &Value, depth: usize) -> Schema {
    let Value::Object(of) = schema else { return Schema::default() };
    if depth > MAX_DEPTH {
        return Schema { preserves: true, ..Schema::default() };
    }
    let flag = |name: &str| of.get(name).and_then(Value::as_bool).unwrap_or(false);
    let part = |name: &str| of.get(name).filter(|part| part.is_object()).map(|part| read(part, depth + 1));
    let mut properties: Vec<(Box<str>, Schema)> = entries(of.get("properties"))
        .map(|(name, part)| (name.as_str().into(), read(part, depth + 1)))
        .collect();
    properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    Schema {
        kind: kind(of),
        nullable: flag("nullable"),
        preserves: flag("x-kubernetes-preserve-unknown-fields"),
        is_embedded: flag("x-kubernetes-embedded-resource"),
        is_atomic: of.get("x-kubernetes-map-type").is_some_and(|map| map == "atomic"),
        list: list_type(of),
        default: of.get("default").filter(|default| !default.is_null()).cloned().map(Box::new),
        properties: properties.into(),
        additional: match of.get("additionalProperties") {
            None | Some(Value::Null | Value::Bool(false)) => Additional::None,
            Some(Value::Object(_)) => {
                part("additionalProperties").map(Box::new).map_or(Additional::Any, Additional::Schema)
            }
            Some(_) => Additional::Any,
        },
        items: part("items").map(Box::new),
        rules: rules(of, depth).map(Box::new),
        validations: Box::default(),
        has_rules: false,
    }
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn kind(of: &Map<String, Value>) -> Kind {
    if of.get("x-kubernetes-int-or-string").is_some_and(|flag| flag == true) {
        return Kind::IntOrString;
    }
    match of.get("type").and_then(Value::as_str).unwrap_or_default() {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => Kind::Any,
    }
}

fn list_type(of: &Map<String, Value>) -> ListType {
    match of.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            ListType::Map(texts(of.get("x-kubernetes-list-map-keys")).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn rules(of: &Map<String, Value>, depth: usize) -> Option<ValueValidation> {
    const RULES: [&str; 20] = [
        "format",
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "pattern",
        "uniqueItems",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "exclusiveMinimum",
        "exclusiveMaximum",
    ];
    if !RULES.iter().any(|rule| of.contains_key(*rule)) {
        return None;
    }
    let number = |name: &str| of.get(name).and_then(Value::as_number).cloned();
    let bound = |name: &str, exclusive: &str| {
        let exclusive = of.get(exclusive).is_some_and(|exclusive| exclusive == true);
        number(name).map(|value| Bound { value, exclusive })
    };
    let range = |least: &str, most: &str| Range { least: count(of.get(least)), most: count(of.get(most)) };
    let parts = |name: &str| -> Box<[Schema]> {
        let parts = of.get(name).and_then(Value::as_array).into_iter().flatten();
        parts.map(|part| read(part, depth + 1)).collect()
    };
    Some(ValueValidation {
        format: of.get("format").and_then(Value::as_str).map(Into::into),
        values: of.get("enum").and_then(Value::as_array).map(|values| values.clone().into()),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: number("multipleOf").filter(|factor: &Number| factor.as_f64() != Some(0.0)),
        length: range("minLength", "maxLength"),
        items: range("minItems", "maxItems"),
        properties: range("minProperties", "maxProperties"),
        pattern: of.get("pattern").and_then(Value::as_str).and_then(|text| Pattern::read(text).ok()),
        unique: of.get("uniqueItems").is_some_and(|unique| unique == true),
        required: texts(of.get("required")).map(Into::into).collect(),
        all_of: parts("allOf"),
        any_of: parts("anyOf"),
        one_of: parts("oneOf"),
        not: of.get("not").filter(|not| not.is_object()).map(|not| Box::new(read(not, depth + 1))),
    })
}

/// Reads a count, which clients may write as `3` or `3.0`.
fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` keeps within the range"
    )]
    value.as_u64().or_else(|| value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64))
}
