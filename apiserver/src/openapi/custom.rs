//! Kinds that are defined at run time: their own schemas, with what every object has.

use serde_json::{Map, Value, json};

use super::names;
use super::schema::{Dialect, group_version_kind};
use crate::resource::Resource;

/// What Swagger 2.0 has no words for; clients of that age stumble over it.
const NOT_IN_V2: [&str; 7] =
    ["allOf", "anyOf", "default", "not", "nullable", "oneOf", "x-kubernetes-validations"];

/// A kind with a schema of its own.
pub(super) struct Custom<'a> {
    /// The row.
    pub resource: &'a Resource,
    /// The version of OpenAPI.
    pub dialect: Dialect,
}

/// A schema that any object fits.
pub(super) fn anything() -> Value {
    json!({"type": "object"})
}

impl Custom<'_> {
    /// The full name of its kind, or of that of its list.
    pub(super) fn name(&self, kind: &str) -> String {
        names::custom(&self.resource.group, &self.resource.version, kind)
    }

    /// The schema of an object: its own, and what every object has.
    pub(super) fn object(&self, own: &Value, metadata: Value) -> Value {
        let own = if self.dialect == Dialect::V2 { without(own) } else { own.clone() };
        let mut schema = own.as_object().cloned().unwrap_or_default();
        schema.insert("type".to_owned(), "object".into());
        let mut properties = match schema.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        properties.extend(self.envelope(metadata));
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("x-kubernetes-group-version-kind".to_owned(), self.kind(&self.resource.kind));
        schema.into()
    }

    /// The schema of a list of such objects.
    pub(super) fn list(&self, one: &Value, metadata: Value) -> Value {
        let Resource { kind, list_kind, .. } = self.resource;
        let mut properties = self.envelope(metadata);
        let items = json!({"description": format!("The {kind} objects."), "type": "array", "items": one});
        properties.insert("items".to_owned(), items);
        json!({
            "description": format!("{list_kind} is a list of {kind}."),
            "type": "object",
            "properties": properties,
            "required": ["items"],
            "x-kubernetes-group-version-kind": self.kind(&self.resource.list_kind),
        })
    }

    fn kind(&self, kind: &str) -> Value {
        json!([group_version_kind(self.resource.api_version(), kind)])
    }

    fn envelope(&self, metadata: Value) -> Map<String, Value> {
        let mut envelope = Map::new();
        let text = |said: &str| json!({"description": said, "type": "string"});
        envelope.insert("apiVersion".to_owned(), text("The group and version of the kind."));
        envelope.insert("kind".to_owned(), text("The kind of the object."));
        let metadata = match self.dialect {
            Dialect::V2 => metadata,
            Dialect::V3 => json!({"allOf": [metadata], "description": "What every object has."}),
        };
        envelope.insert("metadata".to_owned(), metadata);
        envelope
    }
}

/// A schema without what Swagger 2.0 does not know. What stands under `properties` are names, not words.
fn without(schema: &Value) -> Value {
    match schema {
        Value::Object(words) => {
            let known = words.iter().filter(|(word, _)| !NOT_IN_V2.contains(&word.as_str()));
            let kept = known.map(|(word, value)| {
                let value = match value {
                    Value::Object(properties) if word == "properties" => {
                        properties.iter().map(|(name, schema)| (name.clone(), without(schema))).collect()
                    }
                    value => without(value),
                };
                (word.clone(), value)
            });
            Value::Object(kept.collect())
        }
        Value::Array(values) => values.iter().map(without).collect(),
        plain => plain.clone(),
    }
}
