//! Estimates the maximum cost of CEL rules from the size limits in the schema.
//!
//! The limits, the sizes of unbounded values and the messages are those of the stock API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::{MAX_REQUEST_BYTES, SizeEstimate};

use super::Rule;
use super::types::escaped;
use crate::crd::schema::{Additional, Kind, Range, Schema, ValueValidation};

/// Limit for the estimated cost of one expression for all values of one object.
pub(in crate::crd) const MAX_EXPRESSION_COST: u64 = 10_000_000;
/// Limit for the estimated cost of all expressions of one version.
pub(in crate::crd) const MAX_SCHEMA_COST: u64 = 100_000_000;
/// Maximum number of bytes of a character; `maxLength` counts characters.
const CHARACTER_BYTES: u64 = 4;

impl Rule {
    /// The maximum costs of the rule and of its message expression for one value, or 0 if they do not compile.
    pub(in crate::crd) fn costs(&self, extent: &SizeEstimate) -> (u64, u64) {
        let variables = [("self", extent.clone()), ("oldSelf", extent.clone())];
        let message = self.message_program.as_ref().map_or(0, |program| program.max_cost(&variables));
        (self.program.as_ref().map_or(0, |program| program.max_cost(&variables)), message)
    }
}

/// The maximum number of values that one schema path can have in an object, or `None` if it is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::crd) struct Cardinality(Option<u64>);

impl Cardinality {
    /// The cardinality of the object itself.
    pub const ONE: Self = Self(Some(1));

    /// The cardinality of the elements of a list or the values of a map.
    pub fn times(self, most: Option<u64>) -> Self {
        Self(self.0.zip(most).map(|(own, most)| own.saturating_mul(most)))
    }

    /// The cost of an expression for all values.
    pub fn of_all(self, cost: u64, schema: &Schema) -> u64 {
        cost.saturating_mul(self.0.unwrap_or_else(|| MAX_REQUEST_BYTES / (min_bytes(schema) + 1)))
    }
}

/// Estimates the sizes of values of a schema.
pub(in crate::crd) fn size_estimate_of(schema: &Schema, is_resource: bool) -> SizeEstimate {
    let rules = schema.rules.as_deref();
    let most = |range: fn(&ValueValidation) -> Range| rules.and_then(|rules| range(rules).most);
    match schema.kind {
        Kind::Any | Kind::IntOrString => SizeEstimate::Any,
        Kind::Boolean | Kind::Integer | Kind::Number => SizeEstimate::Scalar,
        Kind::String => SizeEstimate::Text(text_bytes(schema)),
        Kind::Array => {
            let Some(items) = schema.items.as_deref() else { return SizeEstimate::Any };
            let unbounded = || (MAX_REQUEST_BYTES - 2) / (min_bytes(items) + 1);
            let count = most(|rules| rules.items).unwrap_or_else(unbounded);
            SizeEstimate::List(count, Arc::new(size_estimate_of(items, items.is_embedded)))
        }
        Kind::Object => match &schema.additional {
            Additional::Schema(values) => {
                // Two quotes, a colon, a comma and a key of two letters.
                let unbounded = || (MAX_REQUEST_BYTES - 2) / (min_bytes(values) + 6);
                let count = most(|rules| rules.properties).unwrap_or_else(unbounded);
                SizeEstimate::Map(count, Arc::new(size_estimate_of(values, values.is_embedded)))
            }
            Additional::Any | Additional::None => fields(schema, is_resource),
        },
    }
}

fn fields(schema: &Schema, is_resource: bool) -> SizeEstimate {
    let own = schema.properties.iter().filter_map(|(name, property)| {
        Some((escaped(name)?.into_owned(), size_estimate_of(property, property.is_embedded)))
    });
    let mut fields: BTreeMap<String, SizeEstimate> = own.collect();
    if is_resource {
        let text = || SizeEstimate::Text(MAX_REQUEST_BYTES - 2);
        let metadata = [("name", text()), ("generateName", text())];
        let metadata = metadata.map(|(name, extent)| (name.to_owned(), extent)).into_iter().collect();
        fields.insert("apiVersion".to_owned(), text());
        fields.insert("kind".to_owned(), text());
        fields.insert("metadata".to_owned(), SizeEstimate::Object(Arc::new(metadata)));
    }
    SizeEstimate::Object(Arc::new(fields))
}

/// The maximum size of a string in bytes.
fn text_bytes(schema: &Schema) -> u64 {
    let Some(rules) = schema.rules.as_deref() else { return MAX_REQUEST_BYTES - 2 };
    let words = rules.values.iter().flat_map(|values| values.iter()).filter_map(serde_json::Value::as_str);
    let longest = words.map(|word| word.len() as u64).max();
    match (longest, rules.length.most, rules.format.as_deref()) {
        (Some(longest), ..) => longest,
        (None, Some(most), _) => most.saturating_mul(CHARACTER_BYTES),
        (None, None, Some("date")) => 10,
        (None, None, Some("date-time" | "duration")) => 35,
        (None, None, _) => MAX_REQUEST_BYTES - 2,
    }
}

/// The minimum size of a value in JSON, in bytes.
fn min_bytes(schema: &Schema) -> u64 {
    match schema.kind {
        Kind::Any | Kind::IntOrString | Kind::Integer | Kind::Number => 1,
        Kind::Boolean => 4,
        Kind::Array => 2,
        Kind::String => match schema.rules.as_deref().and_then(|rules| rules.format.as_deref()) {
            Some("date") => 12,
            Some("date-time") => 22,
            Some("duration") => 3,
            _ => 2,
        },
        Kind::Object => {
            let required = schema.rules.iter().flat_map(|rules| rules.required.iter());
            let fields = required.filter_map(|name| Some((name, schema.property(name)?)));
            // A required field with a default may be left out.
            let needed = fields.filter(|(_, property)| property.default.is_none());
            2 + needed.map(|(name, property)| name.len() as u64 + 4 + min_bytes(property)).sum::<u64>()
        }
    }
}

/// The message for an estimate over its limit, as in the stock API server, or `None` if the estimate is within the
/// limit.
pub(in crate::crd) fn excess(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = match cost as f64 / limit as f64 {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule(s), or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    ))
}
