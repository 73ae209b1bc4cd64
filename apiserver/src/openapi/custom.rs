//! OpenAPI schemas of custom resources.

use serde_json::{Map, Value, json};

use super::schema::{Dialect, group_version_kind};
use crate::resource::Resource;

/// Schema keywords that Swagger 2.0 does not support.
const NOT_IN_V2: [&str; 7] =
    ["allOf", "anyOf", "default", "not", "nullable", "oneOf", "x-kubernetes-validations"];
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// Fields that the server adds to embedded objects, with their official descriptions. Their metadata has the
/// description of the metadata of any object.
const EMBEDDED_FIELDS: [(&str, &str); 2] = [
    (
        "apiVersion",
        "apiVersion defines the versioned schema of this representation of an object. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    ),
    (
        "kind",
        "kind is a string value representing the type of this object. In CamelCase. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    ),
];

/// The official descriptions of the fields that every object has.
pub(super) struct Envelope {
    pub api_version: String,
    pub kind: String,
    pub metadata: String,
}

/// The custom resource whose schemas are generated.
pub(super) struct Custom<'a> {
    /// The custom resource.
    pub resource: &'a Resource,
    /// OpenAPI version.
    pub dialect: Dialect,
}

/// Returns a schema that accepts any object.
pub(super) fn anything() -> Value {
    json!({"type": "object"})
}

impl Custom<'_> {
    /// The full type name of the kind or of its list kind.
    pub(super) fn name(&self, kind: &str) -> String {
        type_name(&self.resource.group, &self.resource.version, kind)
    }

    /// Returns the schema of an object with the common fields.
    ///
    /// A kind without a schema is published as a plain object. Swagger 2.0 also publishes a kind that preserves
    /// unknown fields as a plain object, because kubectl rejects fields that `properties` does not list.
    pub(super) fn object(&self, own: Option<&Value>, metadata: Value, envelope: &Envelope) -> Value {
        let preserves =
            |own: &&Value| self.dialect == Dialect::V2 && own.get(PRESERVES) == Some(&true.into());
        let Some(own) = own.filter(|own| !preserves(own)) else {
            let mut plain = anything();
            plain["x-kubernetes-group-version-kind"] = self.kind(&self.resource.kind);
            return plain;
        };
        let mut own = if self.dialect == Dialect::V2 { without(own) } else { own.clone() };
        self.complete_embedded(&mut own, &self.metadata(metadata.clone(), envelope));
        let mut schema = own.as_object().cloned().unwrap_or_default();
        schema.insert("type".to_owned(), "object".into());
        let mut properties = match schema.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        properties.extend(self.envelope(metadata, envelope));
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("x-kubernetes-group-version-kind".to_owned(), self.kind(&self.resource.kind));
        schema.into()
    }

    /// Schema of the list kind.
    pub(super) fn list(&self, one: &Value, metadata: Value, envelope: &Envelope) -> Value {
        let Resource { kind, list_kind, .. } = self.resource;
        let mut properties = self.envelope(metadata, envelope);
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

    fn envelope(&self, metadata: Value, description: &Envelope) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("apiVersion".to_owned(), text(&description.api_version));
        fields.insert("kind".to_owned(), text(&description.kind));
        fields.insert("metadata".to_owned(), self.metadata(metadata, description));
        fields
    }

    fn metadata(&self, reference: Value, description: &Envelope) -> Value {
        let mut metadata = match self.dialect {
            Dialect::V2 => reference,
            Dialect::V3 => json!({"allOf": [reference]}),
        };
        metadata["description"] = description.metadata.as_str().into();
        metadata
    }

    /// Adds the common fields of all objects to the embedded objects of a schema. In Swagger 2.0, objects that
    /// preserve unknown fields are skipped, because kubectl would reject all other fields.
    fn complete_embedded(&self, schema: &mut Value, metadata: &Value) {
        let Some(words) = schema.as_object_mut() else { return };
        let fields = words.get_mut("properties").and_then(Value::as_object_mut);
        for field in fields.into_iter().flat_map(Map::values_mut) {
            self.complete_embedded(field, metadata);
        }
        for word in ["items", "additionalProperties"] {
            if let Some(inner) = words.get_mut(word) {
                self.complete_embedded(inner, metadata);
            }
        }
        let is = |word: &str| words.get(word) == Some(&true.into());
        if !is(EMBEDDED) || self.dialect == Dialect::V2 && is(PRESERVES) {
            return;
        }
        let properties = words.entry("properties").or_insert_with(|| json!({}));
        for (name, description) in EMBEDDED_FIELDS {
            properties[name] = text(description);
        }
        properties["metadata"] = metadata.clone();
        let required = words.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.retain(|name| EMBEDDED_FIELDS.iter().all(|(own, _)| name != own));
            required.extend(["kind", "apiVersion"].map(Value::from));
        }
    }
}

/// The schema of a string with a description.
fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

/// Reduces a schema to Swagger 2.0. Keys of `properties` are field names, not keywords.
///
/// kubectl before 1.25 rejects null and unknown content of a typed value. Therefore, as in stock Kubernetes,
/// schemas that may be null or preserve unknown fields lose their type and the schema of their content. Fields that
/// may be null are not required. kubectl cannot read a document that contains an array without a schema for its
/// items.
fn without(schema: &Value) -> Value {
    match schema {
        Value::Object(words) => {
            let is = |word: &str| words.get(word) == Some(&true.into());
            let is_untyped = is("nullable") || is(PRESERVES);
            let is_kept = |word: &str| match word {
                "type" | "items" | "properties" => !is_untyped,
                "additionalProperties" => !is("nullable"),
                word => !NOT_IN_V2.contains(&word),
            };
            let kept = words.iter().filter(|(word, _)| is_kept(word)).map(|(word, value)| {
                let value = match value {
                    Value::Object(properties) if word == "properties" => {
                        properties.iter().map(|(name, schema)| (name.clone(), without(schema))).collect()
                    }
                    value => without(value),
                };
                (word.clone(), value)
            });
            let mut kept: Map<String, Value> = kept.collect();
            if kept.get("type").is_some_and(|of| of == "array") && !kept.contains_key("items") {
                kept.shift_remove("type");
            }
            require_only_values(words, &mut kept);
            kept.into()
        }
        Value::Array(values) => values.iter().map(without).collect(),
        plain => plain.clone(),
    }
}

/// Removes the fields that may be null from `required`. `words` is the schema of the object.
fn require_only_values(words: &Map<String, Value>, kept: &mut Map<String, Value>) {
    let is_nullable = |schema: &Value| schema.get("nullable") == Some(&true.into());
    let may_be_null = |name: &str| {
        let field = words.get("properties").and_then(|fields| fields.get(name));
        field.or(words.get("additionalProperties")).is_some_and(is_nullable)
    };
    if let Some(required) = kept.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_none_or(|name| !may_be_null(name)));
        if required.is_empty() {
            kept.shift_remove("required");
        }
    }
}

/// Full name of a custom kind: reversed group, version, kind.
fn type_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}
