//! One document of a stream: parse it, tell what it holds, and report every finding at its place.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::position::{Located, Position};
use super::stream::Chunk;
use super::{Decoded, json, json_position, position, yaml};
use crate::defaults;
use crate::fault::Faults;
use crate::object::Object;
use crate::path::Path;
use crate::problem::{ObjectName, Problem};

/// Decodes the values of one chunk; false when it holds nothing but comments.
pub(super) fn decode(chunk: Chunk<'_>, decoded: &mut Decoded) -> bool {
    let trimmed = chunk.text.trim_start();
    if trimmed.starts_with(['{', '[']) {
        match json::parse(chunk.text) {
            Ok(values) => {
                for parsed in values {
                    let source = Source { chunk, json_start: Some(parsed.start) };
                    object(parsed.value, &source, decoded);
                }
                return true;
            }
            // Flow style YAML looks like JSON at first sight; what fails as both is reported as what it most resembles.
            Err(error) => match yaml::parse(chunk.text) {
                Ok(Some(value)) => object(value, &Source { chunk, json_start: None }, decoded),
                _ => decoded.problems.push(error.problem(chunk.lines_before)),
            },
        }
        return true;
    }
    match yaml::parse(chunk.text) {
        Ok(None) => return false,
        Ok(Some(value)) => object(value, &Source { chunk, json_start: None }, decoded),
        Err(error) => decoded.problems.push(error.problem(chunk.lines_before)),
    }
    true
}

/// The text a value came from, to find places in it.
struct Source<'a> {
    chunk: Chunk<'a>,
    json_start: Option<usize>,
}

impl Source<'_> {
    fn located(&self) -> Option<Located> {
        match self.json_start {
            Some(start) => json_position::of_json(self.chunk.text, start),
            None => position::of_yaml(self.chunk.text),
        }
    }
}

fn object(value: Value, source: &Source<'_>, decoded: &mut Decoded) {
    let mut faults = Faults::default();
    let name = object_name(&value);
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let object = match kind.as_str() {
        "Pod" => typed::<Pod>(value, &mut faults).map(|pod| Object::Pod(Box::new(pod))),
        "ConfigMap" => typed::<ConfigMap>(value, &mut faults).map(|map| Object::ConfigMap(Box::new(map))),
        "Secret" => typed::<Secret>(value, &mut faults).map(|secret| Object::Secret(Box::new(secret))),
        other => {
            faults.add(
                &Path::ROOT.field("kind"),
                format!("kind `{other}` does not run on a node"),
                "write a Pod, a ConfigMap or a Secret",
            );
            None
        }
    };
    if let Some(mut object) = object {
        defaults::object(&mut object);
        decoded.objects.push(object);
    }
    if faults.is_empty() {
        return;
    }
    let located = source.located();
    for fault in faults.into_vec() {
        let at =
            located.as_ref().map_or(Position::START, |root| root.find(fault.path.steps(), fault.at_name));
        decoded.problems.push(Problem {
            line: at.line.saturating_add(source.chunk.lines_before),
            column: at.column,
            path: fault.path.to_string(),
            what: fault.what,
            remedy: fault.remedy,
            object: name.clone(),
        });
    }
}

fn typed<T: DeserializeOwned>(value: Value, faults: &mut Faults) -> Option<T> {
    match serde_json::from_value(value) {
        Ok(object) => Some(object),
        Err(error) => {
            faults.add(&Path::ROOT, error.to_string(), "correct the value");
            None
        }
    }
}

/// What the document calls itself, as far as that can be told.
fn object_name(value: &Value) -> Option<ObjectName> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let kind = text(value.get("kind"))?;
    let metadata = value.get("metadata")?;
    let name = text(metadata.get("name"))?;
    let namespace = text(metadata.get("namespace")).unwrap_or_else(|| defaults::NAMESPACE.to_owned());
    Some(ObjectName { kind, namespace, name })
}
