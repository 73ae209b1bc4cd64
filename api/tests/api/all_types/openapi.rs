//! Parses the generated sources of k8s-openapi: names, types, required fields and list types.

use std::collections::BTreeMap;
use std::path::Path;

use super::sources::files;

/// The folders of the served API groups.
const FOLDERS: [&str; 23] = [
    "api/admissionregistration/v1",
    "api/apps/v1",
    "api/authentication/v1",
    "api/authorization/v1",
    "api/autoscaling/v1",
    "api/autoscaling/v2",
    "api/batch/v1",
    "api/certificates/v1",
    "api/coordination/v1",
    "api/core/v1",
    "api/discovery/v1",
    "api/events/v1",
    "api/flowcontrol/v1",
    "api/networking/v1",
    "api/node/v1",
    "api/policy/v1",
    "api/rbac/v1",
    "api/resource/v1",
    "api/scheduling/v1",
    "api/storage/v1",
    "apiextensions_apiserver/pkg/apis/apiextensions/v1",
    "apimachinery/pkg/apis/meta/v1",
    "kube_aggregator/pkg/apis/apiregistration/v1",
];

/// A JSON type.
#[derive(Default)]
pub struct Type {
    /// The API version, if it is a kind.
    pub api_version: Option<String>,
    /// The kind of its list, if there is one.
    pub list: Option<String>,
    /// The fields by JSON name.
    pub fields: BTreeMap<String, Field>,
}

/// A JSON field.
#[derive(Clone)]
pub struct Field {
    /// The type in the notation of the table.
    pub kind: String,
    /// True if the field is required.
    pub required: bool,
    /// The list type, if it is not the default: `atomic`, `set`, or `map=` with the keys.
    pub list: Option<String>,
    /// The Rust name.
    ident: String,
}

impl Field {
    /// A field with only a type.
    pub fn plain(kind: &str) -> Self {
        Self { kind: kind.to_owned(), required: false, list: None, ident: String::new() }
    }
}

/// All types by short name: `core.v1.Pod`. Only types of served groups are kinds.
pub fn read(source: &Path) -> BTreeMap<String, Type> {
    let mut types = BTreeMap::new();
    for file in files(source) {
        let text = std::fs::read_to_string(&file).unwrap();
        let definition =
            after(&text, "// Generated from definition io.k8s.").and_then(|rest| rest.lines().next());
        let Some(name) = definition.map(short) else { continue };
        let mut of = read_type(&text);
        if !FOLDERS.iter().any(|folder| file.parent() == Some(&source.join(folder))) {
            (of.api_version, of.list) = (None, None);
        }
        types.insert(name, of);
    }
    name_keys(&mut types);
    types
}

/// `core.v1.Pod` for `api.core.v1.Pod`.
fn short(path: &str) -> String {
    let parts: Vec<&str> = path.split(['.', ':']).filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

fn read_type(text: &str) -> Type {
    let mut of = Type {
        api_version: between(text, "const API_VERSION: &'static str = \"", "\"").map(str::to_owned),
        list: between(text, "const LIST_KIND: &'static str = \"", "\"").map(str::to_owned),
        fields: BTreeMap::new(),
    };
    let schema: String = after(text, "json_schema!({")
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("\"description\": \""))
        .map(|line| format!("{line}\n"))
        .collect();
    let required = between(&schema, "            \"required\": [\n", "            ]").unwrap_or_default();
    let properties =
        between(&schema, "            \"properties\": {\n", "\n            }").unwrap_or_default();
    let list_types = list_types(text);
    for property in properties.split("\n                \"") {
        let property = property.trim_start_matches([' ', '"']);
        let Some((name, body)) = property.split_once("\": ") else { continue };
        let ident = between(text, &format!("\"{name}\" => Field::Key_"), ",").unwrap_or(name).to_owned();
        let kind = kind(body);
        // The sources require metadata, the API does not.
        let required = required.contains(&format!("\"{name}\",")) && name != "metadata";
        let list = list_types.get(&ident).cloned();
        of.fields.insert(name.to_owned(), Field { kind, required, list, ident });
    }
    of
}

/// The type of a property in the notation of the table.
fn kind(body: &str) -> String {
    const REFERENCE: &str = "subschema_for::<crate::";
    const PLAIN: &str = "\"type\": \"";
    let (reference, plain) = (body.find(REFERENCE), body.find(PLAIN));
    if let Some(at) = reference.filter(|at| plain.is_none_or(|plain| *at < plain)) {
        return reference_kind(body[at + REFERENCE.len()..].split('>').next().unwrap());
    }
    let plain = plain.map(|at| body[at + PLAIN.len()..].split('"').next().unwrap());
    match (plain, between(body, "\"format\": \"", "\"")) {
        (Some("array"), _) => format!("[]{}", kind(after(body, "\"items\": ").unwrap())),
        (Some("object"), _) => match after(body, "\"additionalProperties\": ") {
            Some(values) => format!("{{}}{}", kind(values)),
            None => "any".to_owned(),
        },
        (Some("boolean"), _) => "bool".to_owned(),
        (Some("string"), Some("byte")) => "bytes".to_owned(),
        (Some("string"), _) => "string".to_owned(),
        (Some("integer"), Some(format)) => format.to_owned(),
        (Some("number"), _) => "double".to_owned(),
        _ => panic!("no kind: {body}"),
    }
}

fn reference_kind(path: &str) -> String {
    let name = short(path);
    match name.rsplit('.').next().unwrap() {
        "Quantity" => "quantity".to_owned(),
        "IntOrString" => "intOrString".to_owned(),
        "Time" => "time".to_owned(),
        "MicroTime" => "microTime".to_owned(),
        "RawExtension" | "JSON" | "FieldsV1" => "any".to_owned(),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            format!("oneOf:{name}")
        }
        _ => name,
    }
}

/// Non-default list types by the Rust name of the field. The keys are Rust names too.
fn list_types(text: &str) -> BTreeMap<String, String> {
    let merge = between(text, "\nimpl crate::DeepMerge for ", "\n}\n").unwrap_or_default();
    let mut types = BTreeMap::new();
    for call in merge.split("crate::merge_strategies::").skip(1) {
        let strategy = call.split('(').next().unwrap();
        // Nested lists have no name and are atomic.
        let Some(field) = between(call, "(", ",").and_then(|first| first.trim().strip_prefix("&mut self."))
        else {
            continue;
        };
        let merge_kind = match strategy {
            "map::granular" | "list::atomic" => continue,
            "map::atomic" => "atomic".to_owned(),
            "list::set" => "set".to_owned(),
            // The claim templates of a StatefulSet, which are atomic.
            "list::map" if call.contains(".metadata.name ==") => continue,
            "list::map" => {
                let keys: Vec<&str> =
                    call.split("|lhs, rhs| lhs.").skip(1).map(|key| key.split(' ').next().unwrap()).collect();
                format!("map={}", keys.join(","))
            }
            other => panic!("unknown strategy {other}"),
        };
        types.insert(field.to_owned(), merge_kind);
    }
    types
}

/// Converts list keys from Rust names to JSON names.
fn name_keys(types: &mut BTreeMap<String, Type>) {
    let names: BTreeMap<(String, String), String> = (types.iter())
        .flat_map(|(of, fields)| {
            fields.fields.iter().map(|(name, field)| ((of.clone(), field.ident.clone()), name.clone()))
        })
        .collect();
    for field in types.values_mut().flat_map(|of| of.fields.values_mut()) {
        let Some(keys) = field.list.as_deref().and_then(|list| list.strip_prefix("map=")) else { continue };
        let of = field.kind.trim_start_matches("[]");
        let name = |key: &str| {
            names.get(&(of.to_owned(), key.to_owned())).unwrap_or_else(|| panic!("{of} has no {key}"))
        };
        let keys: Vec<&str> = keys.split(',').map(|key| name(key).as_str()).collect();
        field.list = Some(format!("map={}", keys.join(",")));
    }
}

fn after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.split_once(start).map(|(_, rest)| rest)
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    after(text, start)?.split_once(end).map(|(inside, _)| inside)
}
