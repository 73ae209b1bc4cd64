//! JSON schemas of types, for either OpenAPI version.

use std::collections::{BTreeMap, BTreeSet};

use api::schema::{Apply, Field, Kind, Patch, Struct, all};
use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;

/// OpenAPI version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Swagger 2.0, which has `definitions` and no `oneOf`.
    V2,
    /// OpenAPI 3.0, which has `components/schemas`.
    V3,
}

impl Dialect {
    /// Returns a reference to a type by its full name.
    pub(super) fn reference(self, full_name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{full_name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{full_name}")}),
        }
    }
}

/// Schemas by full name, generated as they are referenced.
pub(super) struct Schemas {
    dialect: Dialect,
    descriptions: Descriptions,
    /// API versions of the document. Kinds that exist in every group, such as DeleteOptions, list all of
    /// them.
    groups: Vec<String>,
    kinds: BTreeMap<&'static str, &'static str>,
    ahead: Vec<String>,
    seen: BTreeSet<String>,
    made: BTreeMap<String, Value>,
}

impl Schemas {
    /// Creates an empty set for documents of these API versions.
    pub(super) fn new(dialect: Dialect, groups: Vec<String>) -> Self {
        let kinds = all().kinds().map(|(api_version, _, name)| (name, api_version)).collect();
        let (descriptions, ahead, seen, made) = Default::default();
        Self { dialect, descriptions, groups, kinds, ahead, seen, made }
    }

    /// Returns a reference to a type of the schema table, and adds the type to the schemas.
    pub(super) fn refer(&mut self, name: &str) -> Value {
        if self.seen.insert(name.to_owned()) {
            self.ahead.push(name.to_owned());
        }
        self.dialect.reference(&full(name))
    }

    /// Adds a schema that was generated elsewhere.
    pub(super) fn add(&mut self, full_name: &str, schema: Value) -> Value {
        self.made.insert(full_name.to_owned(), schema);
        self.dialect.reference(full_name)
    }

    /// Returns all referenced schemas, including those that other schemas reference.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(name) = self.ahead.pop() {
            let schema = self.of_type(&name);
            self.made.insert(full(&name), schema);
        }
        self.made.into_iter().collect()
    }

    fn of_type(&mut self, name: &str) -> Value {
        let mut schema = Map::new();
        let text = self.descriptions.of(name);
        if !text.is_empty() {
            schema.insert("description".to_owned(), text.into());
        }
        match all().get(name) {
            // A union type has no type of its own.
            Some(_) if is_one_of(name) => {}
            Some(of) => self.of_struct(of, &mut schema),
            None => scalar(name, self.dialect, &mut schema),
        }
        schema.into()
    }

    fn of_struct(&mut self, of: &Struct, schema: &mut Map<String, Value>) {
        let kind = of.name.rsplit('.').next().unwrap_or_default();
        if !schema.contains_key("description") && kind.ends_with("List") {
            let what = format!("{kind} is a list of {}.", kind.trim_end_matches("List"));
            schema.insert("description".to_owned(), what.into());
        }
        let mut properties: Map<String, Value> = Map::new();
        for field in of.fields() {
            properties.insert(field.name.to_owned(), self.of_field(of.name, field));
        }
        let official = self.descriptions.required(of.name);
        let is_required = |field: &&Field| match official {
            // k8s-openapi marks names of references as required, although they default to an empty string.
            Some(official) => field.default.is_none() && official.iter().any(|name| name == field.name),
            None => field.required,
        };
        let required: Vec<&str> = of.fields().iter().filter(is_required).map(|field| field.name).collect();
        schema.insert("type".to_owned(), "object".into());
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), properties.into());
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        if let Some(api_version) = self.kinds.get(of.name) {
            let mut versions = vec![*api_version];
            if of.name == "meta.v1.DeleteOptions" {
                versions.extend(self.groups.iter().map(String::as_str).filter(|group| *group != "v1"));
            }
            let kinds: Vec<Value> = versions.into_iter().map(|of| group_version_kind(of, kind)).collect();
            schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
        }
        if of.atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
    }

    fn of_field(&mut self, of: &str, field: &Field) -> Value {
        let text = self.description(of, field.name);
        let mut schema = self.of_kind(of, field.name, &field.kind);
        if let Some(reference) = schema.get("$ref").cloned().filter(|_| self.dialect == Dialect::V3) {
            // OpenAPI 3.0 ignores siblings of `$ref`, so the reference is wrapped in `allOf`.
            schema = Map::new();
            schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
        }
        if !text.is_empty() {
            schema.insert("description".to_owned(), text.into());
        }
        if let Some(default) = &field.default {
            schema.insert("default".to_owned(), default.clone());
        }
        merging(field, &mut schema);
        schema.into()
    }

    /// The description of a field. Common fields have the descriptions that they have in Pod.
    pub(super) fn description(&mut self, of: &str, field: &str) -> String {
        let text = self.descriptions.of_field(of, field);
        if !text.is_empty() || !matches!(field, "apiVersion" | "kind" | "metadata") {
            return text.to_owned();
        }
        self.descriptions.of_field("core.v1.Pod", field).to_owned()
    }

    fn of_kind(&mut self, of: &str, field: &str, kind: &Kind) -> Map<String, Value> {
        let schema = match kind {
            Kind::String => json!({"type": "string"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Int32 => json!({"type": "integer", "format": "int32"}),
            Kind::Int64 => json!({"type": "integer", "format": "int64"}),
            Kind::Double => json!({"type": "number", "format": "double"}),
            Kind::Bytes => json!({"type": "string", "format": "byte"}),
            Kind::IntOrString => self.refer("util.intstr.IntOrString"),
            Kind::Quantity => self.refer("api.resource.Quantity"),
            Kind::Time => self.refer("meta.v1.Time"),
            Kind::MicroTime => self.refer("meta.v1.MicroTime"),
            Kind::Any if field == "fieldsV1" => self.refer("meta.v1.FieldsV1"),
            Kind::Any if of.starts_with("apiextensions.") => self.refer("apiextensions.v1.JSON"),
            Kind::Any => self.refer("pkg.runtime.RawExtension"),
            Kind::Object(name) | Kind::OneOf(name) => self.refer(name),
            Kind::List(elements) => json!({"type": "array", "items": self.of_kind(of, field, elements)}),
            Kind::Map(values) => {
                json!({"type": "object", "additionalProperties": self.of_kind(of, field, values)})
            }
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

/// Adds the extensions for strategic merge patch and server-side apply.
fn merging(field: &Field, schema: &mut Map<String, Value>) {
    let mut put_extension = |name: &str, value: Value| {
        schema.insert(format!("x-kubernetes-{name}"), value);
    };
    match (&field.apply, &field.kind) {
        (Apply::Atomic, Kind::List(_)) => put_extension("list-type", "atomic".into()),
        (Apply::Atomic, Kind::Map(_)) => put_extension("map-type", "atomic".into()),
        (Apply::Atomic, _) | (Apply::Granular, _) => {}
        (Apply::Set, _) => put_extension("list-type", "set".into()),
        (Apply::MapBy(keys), _) => {
            put_extension("list-map-keys", keys.to_vec().into());
            put_extension("list-type", "map".into());
        }
    }
    let (key, strategy) = match field.patch {
        Patch::Usual => (None, None),
        Patch::MergeBy(key) => (Some(key), Some("merge")),
        Patch::MergeRetainKeysBy(key) => (Some(key), Some("merge,retainKeys")),
        Patch::MergeValues => (None, Some("merge")),
        Patch::RetainKeys => (None, Some("retainKeys")),
    };
    if let Some(key) = key {
        put_extension("patch-merge-key", key.into());
    }
    if let Some(strategy) = strategy {
        put_extension("patch-strategy", strategy.into());
    }
}

/// Writes the schema of a scalar type, which the schema table has only as the kind of a field.
fn scalar(name: &str, dialect: Dialect, schema: &mut Map<String, Value>) {
    let words = match (name, dialect) {
        ("meta.v1.Time" | "meta.v1.MicroTime", _) => json!({"type": "string", "format": "date-time"}),
        ("util.intstr.IntOrString", Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        ("util.intstr.IntOrString", Dialect::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        ("api.resource.Quantity", Dialect::V2) => json!({"type": "string"}),
        ("api.resource.Quantity", Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ("meta.v1.FieldsV1" | "pkg.runtime.RawExtension", _) => json!({"type": "object"}),
        // Arbitrary JSON and union types have no type.
        _ => json!({}),
    };
    if let Value::Object(words) = words {
        schema.extend(words);
    }
}

fn is_one_of(name: &str) -> bool {
    name.starts_with("apiextensions.v1.JSONSchemaPropsOr")
}

/// Returns an entry of `x-kubernetes-group-version-kind`.
pub(super) fn group_version_kind(api_version: &str, kind: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({"group": group, "kind": kind, "version": version})
}

/// Full name of a type in the schema table: `apps.v1.Deployment` is `io.k8s.api.apps.v1.Deployment` in OpenAPI.
fn full(name: &str) -> String {
    let package = match name {
        _ if name.starts_with("meta.v1.") => "io.k8s.apimachinery.pkg.apis.",
        _ if name.starts_with("api.resource.") => "io.k8s.apimachinery.pkg.",
        _ if name.starts_with("util.intstr.") => "io.k8s.apimachinery.pkg.",
        _ if name.starts_with("pkg.runtime.") => "io.k8s.apimachinery.",
        _ if name.starts_with("apiextensions.v1.") => "io.k8s.apiextensions-apiserver.pkg.apis.",
        _ if name.starts_with("apiregistration.v1.") => "io.k8s.kube-aggregator.pkg.apis.",
        _ => "io.k8s.api.",
    };
    format!("{package}{name}")
}
