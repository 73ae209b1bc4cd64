//! What a definition says, read once when it is served.

use std::sync::Arc;

use serde_json::Value;

use super::names::Names;
use super::schema::Schema;
use crate::strategy::Json;

/// A definition that has been written, so that it makes sense.
#[derive(Clone, Debug)]
pub struct Definition {
    /// API group.
    pub group: String,
    /// The names that are accepted.
    pub names: Names,
    /// Objects lie in namespaces.
    pub namespaced: bool,
    /// Every version that is served, the stored one first.
    pub versions: Vec<Version>,
    /// The version objects are stored as.
    pub stored: String,
    /// Some objects may be stored as another version still.
    pub is_mixed: bool,
    /// It has been changed since it was made.
    pub has_changed: bool,
    /// Another number for every definition that was ever written under this name.
    pub edition: u64,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// What its objects are made of.
    pub schema: Arc<Schema>,
    /// Objects have a status that is written by itself.
    pub has_status: bool,
    /// Where the numbers of the `scale` subresource stand, if there is one.
    pub scale: Option<Scale>,
    /// The columns of a table, beyond the name; `None` for the age alone.
    pub columns: Option<Vec<Printed>>,
    /// What field selectors may ask for: `spec.color`.
    pub selectable: Vec<String>,
    /// What whoever writes an object is told of the version.
    pub warning: Option<String>,
}

/// Paths of the `scale` subresource, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many are wanted.
    pub spec_replicas: String,
    /// How many there are.
    pub status_replicas: String,
    /// Which they are, as text.
    pub selector: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Its head.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// What is special about the value: `password`, `int32`.
    pub format: String,
    /// What it means.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
    /// Where the value stands: `.spec.replicas`.
    pub json_path: String,
}

impl Definition {
    /// Reads a definition; `None` for one that has no version to store objects as.
    pub fn read(definition: &Json) -> Option<Self> {
        let spec = definition.get("spec")?;
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = text("group");
        let accepted = definition.get("status").and_then(|status| status.get("acceptedNames"));
        let names = Names::read(accepted.filter(|names| names.is_object()).or(spec.get("names")));
        let versions = spec.get("versions")?.as_array()?;
        let flag = |version: &Value, field: &str| version.get(field).is_some_and(|flag| flag == true);
        let stored = versions.iter().find(|version| flag(version, "storage"))?;
        // What a webhook would convert is not what is stored: it cannot be shown in any other version.
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

/// FNV-1a of the identity and the generation: the same in every process.
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
            columns: columns.map(|columns| columns.iter().map(Printed::read).collect()),
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

impl Printed {
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
