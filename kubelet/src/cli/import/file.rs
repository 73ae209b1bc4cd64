//! A Compose file: from its text to typed services, volumes, configs and secrets.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::interpolate::{Variables, expand_all};
use super::model::{FileSource, NamedVolume, Service, kind_of};
use super::{Findings, unsupported};

/// The typed content of a Compose file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComposeFile {
    /// Name of the project, if the file has one.
    pub name: Option<String>,
    /// Services in the order of the file.
    pub services: Vec<(String, Service)>,
    pub volumes: BTreeMap<String, NamedVolume>,
    pub configs: BTreeMap<String, FileSource>,
    pub secrets: BTreeMap<String, FileSource>,
}

/// Interpolates and types a parsed file. Parts with mistakes are reported and left out.
///
/// # Errors
/// If the file has no services at all.
pub fn read(mut value: Value, variables: &Variables, findings: &mut Findings) -> Result<ComposeFile, String> {
    expand_all(&mut value, "", variables, findings);
    let Value::Object(mut fields) = value else {
        return Err(format!("a Compose file is a map with `services`, not {}", kind_of(&value)));
    };
    let name = fields.shift_remove("name").and_then(|name| name.as_str().map(str::to_owned));
    let mut file = ComposeFile { name, ..ComposeFile::default() };
    let services = match fields.shift_remove("services") {
        Some(Value::Object(services)) if !services.is_empty() => services,
        _ => return Err("the file has no `services`; is it a Compose file?".to_owned()),
    };
    for (name, service) in services.into_iter().filter(|(name, _)| !name.starts_with("x-")) {
        if let Some(service) = typed(&format!("services.{name}"), service, findings) {
            file.services.push((name, service));
        }
    }
    file.volumes = all(&mut fields, "volumes", findings);
    file.configs = all(&mut fields, "configs", findings);
    file.secrets = all(&mut fields, "secrets", findings);
    let networks: BTreeMap<String, Map<String, Value>> = all(&mut fields, "networks", findings);
    for (name, network) in &networks {
        let harmless = ["name", "driver", "labels", "attachable", "enable_ipv4", "enable_ipv6"];
        unsupported::part(&format!("networks.{name}"), network, &harmless, findings);
    }
    unsupported::file(&fields, findings);
    Ok(file)
}

/// The typed entries of a top-level field.
fn all<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    field: &str,
    findings: &mut Findings,
) -> BTreeMap<String, T> {
    let entries = match fields.shift_remove(field) {
        Some(Value::Object(entries)) => entries,
        None | Some(Value::Null) => return BTreeMap::new(),
        Some(other) => {
            findings.problem(field, format!("expected a map, found {}", kind_of(&other)), "write NAME: {}");
            return BTreeMap::new();
        }
    };
    let entries = entries.into_iter().filter(|(name, _)| !name.starts_with("x-"));
    let entry = |(name, value): (String, Value)| {
        let typed = typed(&format!("{field}.{name}"), value, findings)?;
        Some((name, typed))
    };
    entries.filter_map(entry).collect()
}

/// Types a value. A mistake is reported with its path.
fn typed<T: DeserializeOwned>(path: &str, value: Value, findings: &mut Findings) -> Option<T> {
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    match serde_path_to_error::deserialize(value) {
        Ok(typed) => Some(typed),
        Err(error) => {
            let inner = error.path().to_string();
            let path = if inner == "." { path.to_owned() } else { format!("{path}.{inner}") };
            findings.problem(path, error.inner().to_string(), "correct the value; this part is left out");
            None
        }
    }
}
