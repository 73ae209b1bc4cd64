//! Decodes manifests: JSON and YAML, streams of documents, and lists. Each document is decoded separately.

mod convert;
mod document;
pub mod duplicates;
mod escapes;
mod flow_style;
mod items;
mod json;
mod json_position;
mod kinds;
mod position;
mod text;
mod value;
mod yaml;

use std::collections::HashSet;

use serde_json::Value;

use self::value::DecodeLimits;
use crate::field_error::{FieldError, FieldErrors};
use crate::object::Object;
use crate::path::{Path, PathBuf};
use crate::problem::{ObjectName, Problem};

/// Limit for the size of a manifest, as in stock kubelets.
pub const MAX_MANIFEST_BYTES: usize = 10 << 20;

/// Limit for the documents of one manifest.
const MAX_DOCUMENTS: usize = 10_000;

/// Limit for the problems that are reported for one manifest.
const MAX_PROBLEMS: usize = 500;

/// The result of decoding a manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The valid objects with defaults, in the order of the manifest.
    pub objects: Vec<Object>,
    /// The problems of all other documents, in the order of the manifest.
    pub problems: Vec<Problem>,
}

/// Decodes a manifest. An invalid document does not affect the other documents.
pub fn decode(bytes: &[u8]) -> Decoded {
    decode_with(bytes, &|_| Vec::new())
}

/// Does the same as [`decode`], and runs an additional check on valid objects. If the check finds errors, they are
/// reported with their positions and the object is left out.
pub fn decode_with(bytes: &[u8], extra_check: &dyn Fn(&Object) -> Vec<FieldError>) -> Decoded {
    let mut outcome = Outcome {
        decoded: Decoded::default(),
        seen: HashSet::new(),
        limits: DecodeLimits::default(),
        extra_check,
    };
    match text::read(bytes) {
        Err(error) => outcome.problem(error.problem(0)),
        Ok(text) => {
            let mut empty = true;
            for (index, chunk) in document::split(text).into_iter().enumerate() {
                if index == MAX_DOCUMENTS {
                    let what = format!("the manifest holds more than {MAX_DOCUMENTS} documents");
                    let remedy = "split it into several files";
                    outcome.problem(text::problem(1, 1, &what, remedy).problem(chunk.lines_before));
                    break;
                }
                empty &= !document::decode(chunk, &mut outcome);
            }
            if empty {
                let remedy = "write a Pod, a ConfigMap, a Secret or a Service, or remove the file";
                outcome.problem(text::problem(1, 1, "the manifest is empty", remedy).problem(0));
            }
        }
    }
    outcome.decoded
}

/// The objects and errors of the documents that were decoded, and the state for the next document.
struct Outcome<'a> {
    decoded: Decoded,
    seen: HashSet<ObjectName>,
    limits: DecodeLimits,
    extra_check: &'a dyn Fn(&Object) -> Vec<FieldError>,
}

impl Outcome<'_> {
    /// Adds an object, or reports that the manifest contains its name already.
    fn take(&mut self, object: Object, errors: &mut FieldErrors) {
        let name = object.object_name();
        if self.seen.contains(&name) {
            errors.add(
                &Path::ROOT.field("metadata").field("name"),
                format!("{name} is defined twice in this manifest"),
                "rename or remove one of them; the first one is used",
            );
            return;
        }
        self.seen.insert(name);
        self.decoded.objects.push(object);
    }

    fn problem(&mut self, problem: Problem) {
        match self.decoded.problems.len() {
            0..MAX_PROBLEMS => self.decoded.problems.push(problem),
            MAX_PROBLEMS => self.decoded.problems.push(Problem {
                path: String::new(),
                what: "further problems are not shown".to_owned(),
                remedy: "correct these first".to_owned(),
                object: None,
                ..problem
            }),
            _ => {}
        }
    }
}

/// One document of a manifest, with values of any kind.
#[derive(Debug)]
pub struct Document<'a> {
    /// The text, including its `---` line.
    pub text: &'a str,
    /// 1-based line at which the document begins.
    pub line: u32,
    /// The values. Several if JSON values follow each other, none if the document contains only comments.
    pub values: Result<Vec<Value>, Box<Problem>>,
}

/// Splits a manifest into documents, and parses each as JSON or YAML of any kind. An invalid document does not affect
/// the other documents.
///
/// # Errors
/// If the manifest is not text, is too large, or has more than 10,000 documents.
pub fn documents(bytes: &[u8]) -> Result<Vec<Document<'_>>, Box<Problem>> {
    let text = text::read(bytes).map_err(|error| Box::new(error.problem(0)))?;
    let chunks = document::split(text);
    if chunks.len() > MAX_DOCUMENTS {
        let what = format!("the manifest holds more than {MAX_DOCUMENTS} documents");
        return Err(Box::new(text::problem(1, 1, &what, "split it into several files").problem(0)));
    }
    let limits = DecodeLimits::default();
    let parse = |chunk: document::Chunk<'_>| {
        let values = document::values(chunk.text, &limits);
        values.map_err(|error| Box::new(error.problem(chunk.lines_before)))
    };
    let documents = chunks.into_iter().map(|chunk| Document {
        text: chunk.text,
        line: chunk.lines_before.saturating_add(1),
        values: parse(chunk),
    });
    Ok(documents.collect())
}

/// Parses one JSON or YAML document of any kind. Returns `None` if it contains only comments.
///
/// # Errors
/// If the text is neither JSON nor YAML, or has more than one JSON value.
pub fn value(bytes: &[u8]) -> Result<Option<Value>, Box<Problem>> {
    let limits = DecodeLimits::default();
    let read = || {
        let text = text::read(bytes)?;
        if !text.trim_start().starts_with(['{', '[']) {
            let escaped = escapes::without_apostrophe_escapes(text);
            return yaml::parse(escaped.as_deref().unwrap_or(text), &limits);
        }
        let mut values = json::parse(text, &limits)?;
        match values.len() {
            0 | 1 => Ok(values.pop().map(|parsed| parsed.value)),
            _ => Err(text::problem(1, 1, "there is more than one document", "keep one of them")),
        }
    };
    read().map_err(|error| Box::new(error.problem(0)))
}

/// Sets line and column of problems in a YAML or JSON document of any kind, by their paths. If a path does not exist
/// in the document, the position is that of its innermost parent that exists.
pub fn locate<'a>(bytes: &[u8], problems: impl IntoIterator<Item = &'a mut Problem>) {
    let Some(located) = text::read(bytes).ok().and_then(position::of_yaml) else { return };
    for problem in problems {
        let path = PathBuf::from(problem.path.as_str());
        let at = located.find(path.steps(), true);
        (problem.line, problem.column) = (at.line, at.column);
    }
}

#[cfg(test)]
mod tests;
