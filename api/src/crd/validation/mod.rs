//! Validates CustomResourceDefinitions.

mod keywords;
mod lists;
mod names;
mod rules;
mod spec;
mod structure;
mod versions;

use serde_json::{Map, Value};

pub(super) use self::spec::definition;
use super::schema::{MAX_DEPTH, Pattern};
use crate::path::Path;
use crate::strategy::{Cause, Json};

/// Limit for the errors that are reported for one definition.
const MAX_CAUSES: usize = 100;

/// The errors found so far.
#[derive(Default)]
struct Causes(Vec<Cause>);

impl Causes {
    fn add(&mut self, cause: Cause) {
        if self.0.len() < MAX_CAUSES {
            self.0.push(cause);
        }
    }

    fn required(&mut self, path: &Path<'_>, why: &str) {
        self.add(Cause::required(named(path), why));
    }

    fn forbidden(&mut self, path: &Path<'_>, why: &str) {
        self.add(Cause::forbidden(named(path), why));
    }

    fn invalid(&mut self, path: &Path<'_>, value: &Value, why: &str) {
        self.add(Cause::invalid(named(path), value, why));
    }

    fn not_supported(&mut self, path: &Path<'_>, value: &str, known: &[&str]) {
        self.add(Cause::not_supported(named(path), value, known));
    }
}

fn named(path: &Path<'_>) -> String {
    path.to_owned().to_string()
}

fn text<'a>(value: Option<&'a Value>, field: &str) -> &'a str {
    value.and_then(|value| value.get(field)?.as_str()).unwrap_or_default()
}

fn is_set(of: &Map<String, Value>, flag: &str) -> bool {
    of.get(flag).is_some_and(|flag| *flag == true)
}

fn list<'a>(value: Option<&'a Value>, field: &str) -> &'a [Value] {
    value.and_then(|value| value.get(field)?.as_array()).map(Vec::as_slice).unwrap_or_default()
}

/// Warnings for features that are accepted but not enforced.
pub(super) fn warnings(definition: &Json) -> Vec<String> {
    let spec = definition.get("spec");
    let mut warnings = Vec::new();
    for (at, version) in list(spec, "versions").iter().enumerate() {
        let place = format!("spec.versions[{at}].schema.openAPIV3Schema");
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
        let patterns = unenforced_patterns(schema, 0);
        if patterns > 0 {
            warnings.push(format!(
                "{place}: {patterns} patterns with Unicode classes are stored and not enforced by this server"
            ));
        }
    }
    if spec
        .and_then(|spec| spec.pointer("/conversion/strategy"))
        .is_some_and(|strategy| strategy == "Webhook")
    {
        warnings.push(
            "spec.conversion: webhooks are not called by this server: only the storage version is served"
                .to_owned(),
        );
    }
    warnings
}

/// The number of patterns that are not enforced.
fn unenforced_patterns(schema: &Value, depth: usize) -> usize {
    let Some(of) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return 0 };
    let pattern = text(Some(schema), "pattern");
    let own = usize::from(Pattern::read(pattern).is_ok_and(|pattern| !pattern.is_enforced()));
    let parts = of.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let parts = parts.chain(of.get("items")).chain(of.get("additionalProperties"));
    own + parts.map(|part| unenforced_patterns(part, depth + 1)).sum::<usize>()
}
