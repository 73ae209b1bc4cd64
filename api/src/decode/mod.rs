//! Bytes of a local source to objects: JSON, YAML, streams and lists, each document on its own.

mod convert;
mod document;
mod flow;
mod items;
mod json;
mod json_position;
mod kinds;
mod position;
pub mod repeated;
mod stream;
mod syntax;
mod text;
mod value;
mod yaml;

use std::collections::HashSet;

use serde_json::Value;

use self::value::Allowance;
use crate::fault::{Fault, Faults};
use crate::object::Object;
use crate::path::Path;
use crate::problem::{ObjectName, Problem};

/// Largest manifest that is read, the limit every kubelet has for one.
pub const MAX_MANIFEST_BYTES: usize = 10 << 20;

/// Documents of one manifest that are read: far more than a node runs Pods.
const MAX_DOCUMENTS: usize = 10_000;

/// How many problems of one manifest are kept: a file of a million broken documents is not worth a million lines.
const MAX_PROBLEMS: usize = 500;

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
    decode_with(bytes, &|_| Vec::new())
}

/// As [`decode`], with findings of the caller's own about objects that are right otherwise: they become problems with
/// their places, and the object is left out.
pub fn decode_with(bytes: &[u8], also: &dyn Fn(&Object) -> Vec<Fault>) -> Decoded {
    let mut outcome =
        Outcome { decoded: Decoded::default(), seen: HashSet::new(), allowance: Allowance::default(), also };
    match text::read(bytes) {
        Err(error) => outcome.problem(error.problem(0)),
        Ok(text) => {
            let mut empty = true;
            for (index, chunk) in stream::documents(text).into_iter().enumerate() {
                if index == MAX_DOCUMENTS {
                    let what = format!("the manifest holds more than {MAX_DOCUMENTS} documents");
                    let remedy = "split it into several files";
                    outcome.problem(text::problem(1, 1, &what, remedy).problem(chunk.lines_before));
                    break;
                }
                empty &= !document::decode(chunk, &mut outcome);
            }
            if empty {
                let remedy = "write a Pod, a ConfigMap or a Secret, or remove the file";
                outcome.problem(text::problem(1, 1, "the manifest is empty", remedy).problem(0));
            }
        }
    }
    outcome.decoded
}

/// What has been decoded so far.
struct Outcome<'a> {
    decoded: Decoded,
    seen: HashSet<ObjectName>,
    allowance: Allowance,
    also: &'a dyn Fn(&Object) -> Vec<Fault>,
}

impl Outcome<'_> {
    /// Keeps an object unless one of its name is there already.
    fn take(&mut self, object: Object, faults: &mut Faults) {
        let name = object.object_name();
        if self.seen.contains(&name) {
            faults.add(
                &Path::ROOT.field("metadata").field("name"),
                format!("{name} stands in this manifest twice"),
                "rename or remove one of them; the first one counts",
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
                what: "there are more problems than are shown".to_owned(),
                remedy: "correct these first".to_owned(),
                object: None,
                ..problem
            }),
            _ => {}
        }
    }
}

/// Reads one JSON or YAML document of whatever kind; `None` when it holds nothing but comments.
///
/// # Errors
/// When the text is neither, or holds more than one JSON value.
pub fn value(bytes: &[u8]) -> Result<Option<Value>, Box<Problem>> {
    let allowance = Allowance::default();
    let read = || {
        let text = text::read(bytes)?;
        if !text.trim_start().starts_with(['{', '[']) {
            return yaml::parse(text, &allowance);
        }
        let mut values = json::parse(text, &allowance)?;
        match values.len() {
            0 | 1 => Ok(values.pop().map(|parsed| parsed.value)),
            _ => Err(text::problem(1, 1, "there is more than one document", "keep one of them")),
        }
    };
    read().map_err(|error| Box::new(error.problem(0)))
}

#[cfg(test)]
mod tests;
