//! Splits a manifest into documents, so that an invalid document does not affect the others. Decodes one document and
//! reports each error with its line and column.

use serde_json::Value;

use super::items::{self, Item};
use super::position::{Located, Position};
use super::text::SyntaxError;
use super::value::DecodeLimits;
use super::{Outcome, convert, escapes, json, json_position, position, yaml};
use crate::field_error::{FieldError, FieldErrors, Target};
use crate::problem::{ObjectName, Problem};

/// Decodes the values of one document. Returns false if it contains only comments.
pub(super) fn decode(chunk: Chunk<'_>, outcome: &mut Outcome<'_>) -> bool {
    match escapes::without_apostrophe_escapes(chunk.text) {
        Some(text) => decode_text(Chunk { text: &text, ..chunk }, outcome),
        None => decode_text(chunk, outcome),
    }
}

fn decode_text(chunk: Chunk<'_>, outcome: &mut Outcome<'_>) -> bool {
    if chunk.text.trim_start().starts_with(['{', '[']) {
        match json::parse(chunk.text, &outcome.limits) {
            Ok(values) => {
                for parsed in values {
                    let source = Source { chunk, json_start: Some(parsed.start) };
                    value(parsed.value, &source, outcome);
                }
            }
            // Flow-style YAML can begin like JSON. If both parsers fail, the error of the more similar format is
            // reported.
            Err(json_error) => match yaml::parse(chunk.text, &outcome.limits) {
                Ok(Some(parsed)) => value(parsed, &Source { chunk, json_start: None }, outcome),
                Err(error) if !resembles_json(chunk.text) => {
                    outcome.problem(error.problem(chunk.lines_before))
                }
                Ok(None) | Err(_) => outcome.problem(json_error.problem(chunk.lines_before)),
            },
        }
        return true;
    }
    match yaml::parse(chunk.text, &outcome.limits) {
        Ok(None) => return false,
        Ok(Some(parsed)) => value(parsed, &Source { chunk, json_start: None }, outcome),
        Err(error) => outcome.problem(error.problem(chunk.lines_before)),
    }
    true
}

/// Parses the values of one document, of any kind. JSON values may follow each other.
pub(super) fn values(text: &str, limits: &DecodeLimits) -> Result<Vec<Value>, SyntaxError> {
    let escaped = escapes::without_apostrophe_escapes(text);
    let text = escaped.as_deref().unwrap_or(text);
    let mut json_error = None;
    if text.trim_start().starts_with(['{', '[']) {
        match json::parse(text, limits) {
            Ok(values) => return Ok(values.into_iter().map(|parsed| parsed.value).collect()),
            Err(error) => json_error = resembles_json(text).then_some(error),
        }
    }
    match yaml::parse(text, limits) {
        Ok(value) => Ok(value.into_iter().collect()),
        Err(error) => Err(json_error.unwrap_or(error)),
    }
}

/// True for a list, and for a map whose first key is quoted.
fn resembles_json(text: &str) -> bool {
    let text = text.trim_start();
    text.strip_prefix('{').is_none_or(|inside| inside.trim_start().starts_with(['"', '}']))
}

/// The text of a value, to look up positions in it.
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

/// Decodes all objects in one value.
fn value(value: Value, source: &Source<'_>, outcome: &mut Outcome<'_>) {
    let mut errors = FieldErrors::default();
    let items = items::of(value, &mut errors);
    let mut reports = vec![Report { name: None, errors: errors.into_vec() }];
    for Item { form, value, path } in items {
        let mut errors = FieldErrors::default();
        let converted = convert::object(form, value, outcome.extra_check, &mut errors);
        if let Some(object) = converted.object {
            outcome.take(object, &mut errors);
        }
        let under = |error: FieldError| FieldError { path: error.path.under(&path), ..error };
        reports.push(Report {
            name: converted.name,
            errors: errors.into_vec().into_iter().map(under).collect(),
        });
    }
    if reports.iter().any(|report| !report.errors.is_empty()) {
        let located = source.located();
        let placed = reports.into_iter().flat_map(|report| report.place(source, located.as_ref()));
        let mut problems: Vec<Problem> = placed.collect();
        // Errors of several objects are reported in the order of their lines.
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.into_iter().for_each(|problem| outcome.problem(problem));
    }
}

/// The errors of one object, or of a value that is not an object.
struct Report {
    name: Option<ObjectName>,
    errors: Vec<FieldError>,
}

impl Report {
    fn place(self, source: &Source<'_>, located: Option<&Located>) -> Vec<Problem> {
        let secret = self.name.as_ref().is_some_and(|name| name.kind == "Secret");
        let mut problems = Vec::with_capacity(self.errors.len());
        for error in self.errors {
            let at = located
                .map_or(Position::START, |root| root.find(error.path.steps(), error.target == Target::Name));
            let remedy = match error.target {
                Target::Unquoted if !secret => quoted(source.chunk.text, at).unwrap_or(error.remedy),
                Target::Unquoted | Target::Value | Target::Name => error.remedy,
            };
            problems.push(Problem {
                line: at.line.saturating_add(source.chunk.lines_before),
                column: at.column,
                path: error.path.to_string(),
                what: error.what,
                remedy,
                object: self.name.clone(),
            });
        }
        problems
    }
}

/// The remedy for a value that needs quotes. It shows the value as written: `1.10`, not `1.1`.
fn quoted(text: &str, at: Position) -> Option<String> {
    let line = text.lines().nth(at.line as usize - 1)?;
    let start = line.char_indices().nth(at.column as usize - 1)?.0;
    let value = line[start..].split([',', '}', ']', '#']).next()?.trim_end();
    let plain = !value.is_empty()
        && value.len() <= MAX_QUOTED_BYTES
        && !value.contains(['"', '\'', ':', '*', '&', '!']);
    plain.then(|| format!("quote it: \"{value}\""))
}

/// The longest value that the remedy shows, in bytes. Numbers and booleans are shorter.
const MAX_QUOTED_BYTES: usize = 40;

/// The text of a document and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// The text, including the `---` line.
    pub text: &'a str,
    /// Number of lines before this document.
    pub lines_before: u32,
}

/// Splits at each `---` and `...` line. Such a line is never inside of a YAML scalar or a JSON string. A `---` line
/// belongs to the document that it opens.
pub(super) fn split(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let mut only_directives = true;
    let mut offset = 0;
    for (line_number, line) in text.split_inclusive('\n').enumerate() {
        let line_number = u32::try_from(line_number).unwrap_or(u32::MAX);
        let opens = is_marker(line, "---");
        if opens && !only_directives {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number);
        }
        only_directives = only_directives && !opens && is_prologue(line);
        offset += line.len();
        if is_marker(line, "...") {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number + 1);
            only_directives = true;
        }
    }
    if start < offset {
        chunks.push(Chunk { text: &text[start..], lines_before: start_line });
    }
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// True for lines that may precede the `---` line of their document.
fn is_prologue(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%'])
}
