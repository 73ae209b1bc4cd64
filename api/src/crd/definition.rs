//! A CustomResourceDefinition, parsed once when it is served.

use std::sync::Arc;

use serde_json::Value;

use super::names::Names;
use super::schema::Schema;
use crate::strategy::Json;

/// A CustomResourceDefinition that passed validation.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// The accepted names.
    pub names: Names,
    /// True if objects are namespaced.
    pub namespaced: bool,
    /// All served versions, the storage version first.
    pub versions: Vec<Version>,
    /// The name of the storage version.
    pub stored: String,
    /// True if some objects may still be stored in another version.
    pub is_mixed: bool,
    /// True if the definition was updated since its creation.
    pub has_changed: bool,
    /// A number that differs for each revision of each definition of this name.
    pub edition: u64,
}

/// One version of a custom resource.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name of the version.
    pub name: String,
    /// The schema of objects.
    pub schema: Arc<Schema>,
    /// True if there is a `status` subresource.
    pub has_status: bool,
    /// The paths of the `scale` subresource, if there is one.
    pub scale: Option<Scale>,
    /// The printer columns after the name, or `None` for the age alone.
    pub columns: Option<Vec<PrinterColumn>>,
    /// The fields that field selectors may use, such as `spec.color`.
    pub selectable: Vec<String>,
    /// The deprecation warning for clients, if any.
    pub warning: Option<String>,
}

/// The paths of the `scale` subresource, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The path of the desired number of replicas.
    pub spec_replicas: String,
    /// The path of the current number of replicas.
    pub status_replicas: String,
    /// The path of the label selector in string form.
    pub selector: Option<String>,
}

/// A printer column (`additionalPrinterColumns`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// The column header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format of the value, such as `password` or `int32`.
    pub format: String,
    /// The description of the column.
    pub description: String,
    /// 0 for columns that are always shown; higher ones are shown with `-o wide`.
    pub priority: i32,
    /// The JSONPath of the value, such as `.spec.replicas`.
    pub json_path: String,
}

impl Definition {
    /// Parses a definition. Returns `None` if it has no storage version.
    pub fn read(definition: &Json) -> Option<Self> {
        let spec = definition.get("spec")?;
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = text("group");
        let accepted = definition.get("status").and_then(|status| status.get("acceptedNames"));
        let names = Names::read(accepted.filter(|names| names.is_object()).or(spec.get("names")));
        let versions = spec.get("versions")?.as_array()?;
        let flag = |version: &Value, field: &str| version.get(field).is_some_and(|flag| flag == true);
        let stored = versions.iter().find(|version| flag(version, "storage"))?;
        // The server does not call conversion webhooks, so only the storage version can be served.
        let converts = spec.pointer("/conversion/strategy").is_some_and(|strategy| strategy == "Webhook");
        let mut served: Vec<Version> = versions
            .iter()
            .filter(|version| flag(version, "served") && (!converts || flag(version, "storage")))
            .map(|version| Version::read(version, &group, &names.kind))
            .collect();
        let stored = name(stored);
        served.sort_by_key(|version| version.name != stored);
        let all_stored = definition.get("status").and_then(|status| status.get("storedVersions")?.as_array());
        let is_mixed = all_stored.into_iter().flatten().any(|version| *version != *stored);
        let generation = definition.get("metadata").and_then(|metadata| metadata.get("generation")?.as_i64());
        Some(Self {
            group,
            names,
            namespaced: text("scope") == "Namespaced",
            versions: served,
            stored,
            is_mixed,
            has_changed: generation.unwrap_or(1) > 1,
            edition: edition(definition),
        })
    }
}

/// FNV-1a of the UID and the generation, which is the same in every process.
fn edition(definition: &Json) -> u64 {
    let at = |field: &str| definition.get("metadata").and_then(|metadata| metadata.get(field));
    let text = format!("{:?} {:?}", at("uid"), at("generation"));
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn name(version: &Value) -> String {
    version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Version {
    fn read(version: &Value, group: &str, kind: &str) -> Self {
        let at = |pointer: &str| version.pointer(pointer).filter(|value| !value.is_null());
        let texts = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = name(version);
        let columns =
            at("/additionalPrinterColumns").and_then(Value::as_array).filter(|columns| !columns.is_empty());
        let own = at("/deprecationWarning").and_then(Value::as_str).map(str::to_owned);
        let is_deprecated = at("/deprecated").is_some_and(|flag| *flag == true);
        Self {
            warning: is_deprecated
                .then(|| own.unwrap_or_else(|| format!("{group}/{name} {kind} is deprecated"))),
            schema: Arc::new(Schema::read(at("/schema/openAPIV3Schema").unwrap_or(&Value::Null))),
            has_status: at("/subresources/status").is_some(),
            scale: at("/subresources/scale").map(|scale| Scale {
                spec_replicas: texts(scale, "specReplicasPath"),
                status_replicas: texts(scale, "statusReplicasPath"),
                selector: Some(texts(scale, "labelSelectorPath")).filter(|path| !path.is_empty()),
            }),
            columns: columns.map(|columns| columns.iter().map(PrinterColumn::read).collect()),
            selectable: at("/selectableFields")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|field| texts(field, "jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            name,
        }
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> Self {
        let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or(i32::MAX),
            json_path: text("jsonPath"),
        }
    }
}
