//! Parses the `fieldPath` of CEL rules, such as `.spec.replicas` or `['a-field'].name`.

use crate::crd::schema::{Additional, Schema};
use crate::path::{OwnedStep, PathBuf};

/// Parses a path to a field in a value of the type `schema`.
///
/// # Errors
/// If the path is malformed or leads to no field of the schema.
pub(in crate::crd) fn field_path(text: &str, schema: &Schema) -> Result<PathBuf, String> {
    let mut steps = Vec::new();
    let mut at = schema;
    let mut rest = text;
    while !rest.is_empty() {
        let name = if let Some(tail) = rest.strip_prefix("['") {
            let (name, tail) = tail.split_once("']").ok_or("expected ]")?;
            rest = tail;
            name.replace("\\'", "'")
        } else if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            let (name, tail) = tail.split_at(end);
            rest = tail;
            name.to_owned()
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        let missing = || "does not refer to a valid field".to_owned();
        at = match (at.property(&name), &at.additional) {
            (Some(property), _) => {
                steps.push(OwnedStep::Field(name));
                property
            }
            (None, Additional::Schema(values)) if at.properties.is_empty() => {
                steps.push(OwnedStep::Key(name));
                values
            }
            (None, _) => return Err(missing()),
        };
    }
    if steps.is_empty() { Err("is empty".to_owned()) } else { Ok(PathBuf(steps)) }
}
