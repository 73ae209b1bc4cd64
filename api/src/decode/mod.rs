//! Bytes of a local source to objects: JSON, YAML, streams and lists, each document on its own.

mod document;
mod json;
mod json_position;
mod position;
mod stream;
mod syntax;
mod text;
mod yaml;

use serde_json::Value;

use crate::object::Object;
use crate::problem::Problem;

/// Largest manifest that is read, the limit every kubelet has for one.
pub const MAX_MANIFEST_BYTES: usize = 10 << 20;

/// What the documents of one manifest hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// Objects that are defaulted and valid, in the order of the manifest.
    pub objects: Vec<Object>,
    /// What is wrong with the rest, in the order of the manifest.
    pub problems: Vec<Problem>,
}

/// Decodes one manifest. A document that is wrong becomes problems and leaves its neighbours alone.
pub fn decode(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let text = match text::read(bytes) {
        Ok(text) => text,
        Err(error) => {
            decoded.problems.push(error.problem(0));
            return decoded;
        }
    };
    let mut empty = true;
    for chunk in stream::documents(text) {
        empty &= !document::decode(chunk, &mut decoded);
    }
    if empty {
        let remedy = "write a Pod, a ConfigMap or a Secret, or remove the file";
        decoded.problems.push(text::problem(1, 1, "the manifest is empty", remedy).problem(0));
    }
    decoded
}

/// Reads one JSON or YAML document of whatever kind; `None` when it holds nothing but comments.
///
/// # Errors
/// When the text is neither, or holds more than one JSON value.
pub fn value(bytes: &[u8]) -> Result<Option<Value>, Box<Problem>> {
    let read = || {
        let text = text::read(bytes)?;
        if !text.trim_start().starts_with(['{', '[']) {
            return yaml::parse(text);
        }
        let mut values = json::parse(text)?;
        match values.len() {
            0 | 1 => Ok(values.pop().map(|parsed| parsed.value)),
            _ => Err(text::problem(1, 1, "there is more than one document", "keep one of them")),
        }
    };
    read().map_err(|error| Box::new(error.problem(0)))
}

#[cfg(test)]
mod tests;
