//! One document of a stream: parse it, tell what it holds, and report every finding at its place.

use serde_json::Value;

use super::items::{self, Item};
use super::position::{Located, Position};
use super::stream::Chunk;
use super::{Outcome, convert, json, json_position, position, yaml};
use crate::fault::{Aim, Fault, Faults};
use crate::problem::{ObjectName, Problem};

/// Decodes the values of one chunk; false when it holds nothing but comments.
pub(super) fn decode(chunk: Chunk<'_>, outcome: &mut Outcome<'_>) -> bool {
    if chunk.text.trim_start().starts_with(['{', '[']) {
        match json::parse(chunk.text, &outcome.allowance) {
            Ok(values) => {
                for parsed in values {
                    let source = Source { chunk, json_start: Some(parsed.start) };
                    value(parsed.value, &source, outcome);
                }
            }
            // Flow style YAML looks like JSON at first sight; what fails as both is reported as what it most resembles.
            Err(json_error) => match yaml::parse(chunk.text, &outcome.allowance) {
                Ok(Some(parsed)) => value(parsed, &Source { chunk, json_start: None }, outcome),
                Err(error) if !resembles_json(chunk.text) => {
                    outcome.problem(error.problem(chunk.lines_before))
                }
                Ok(None) | Err(_) => outcome.problem(json_error.problem(chunk.lines_before)),
            },
        }
        return true;
    }
    match yaml::parse(chunk.text, &outcome.allowance) {
        Ok(None) => return false,
        Ok(Some(parsed)) => value(parsed, &Source { chunk, json_start: None }, outcome),
        Err(error) => outcome.problem(error.problem(chunk.lines_before)),
    }
    true
}

/// True for a list, or a map whose first key is in quotes.
fn resembles_json(text: &str) -> bool {
    let text = text.trim_start();
    text.strip_prefix('{').is_none_or(|inside| inside.trim_start().starts_with(['"', '}']))
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

/// Decodes everything that one value holds.
fn value(value: Value, source: &Source<'_>, outcome: &mut Outcome<'_>) {
    let mut faults = Faults::default();
    let items = items::of(value, &mut faults);
    let mut reports = vec![Report { name: None, faults: faults.into_vec() }];
    for Item { form, value, path } in items {
        let mut faults = Faults::default();
        let converted = convert::object(form, value, outcome.also, &mut faults);
        if let Some(object) = converted.object {
            outcome.take(object, &mut faults);
        }
        let under = |fault: Fault| Fault { path: fault.path.under(&path), ..fault };
        reports.push(Report {
            name: converted.name,
            faults: faults.into_vec().into_iter().map(under).collect(),
        });
    }
    if reports.iter().any(|report| !report.faults.is_empty()) {
        let located = source.located();
        let placed = reports.into_iter().flat_map(|report| report.place(source, located.as_ref()));
        let mut problems: Vec<Problem> = placed.collect();
        // Findings about shape and meaning of several objects read best from top to bottom.
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.into_iter().for_each(|problem| outcome.problem(problem));
    }
}

/// Findings about one object, or about what could not be told to be one.
struct Report {
    name: Option<ObjectName>,
    faults: Vec<Fault>,
}

impl Report {
    fn place(self, source: &Source<'_>, located: Option<&Located>) -> Vec<Problem> {
        let secret = self.name.as_ref().is_some_and(|name| name.kind == "Secret");
        let mut problems = Vec::with_capacity(self.faults.len());
        for fault in self.faults {
            let at =
                located.map_or(Position::START, |root| root.find(fault.path.steps(), fault.aim == Aim::Name));
            let remedy = match fault.aim {
                Aim::Unquoted if !secret => quoted(source.chunk.text, at).unwrap_or(fault.remedy),
                Aim::Unquoted | Aim::Value | Aim::Name => fault.remedy,
            };
            problems.push(Problem {
                line: at.line.saturating_add(source.chunk.lines_before),
                column: at.column,
                path: fault.path.to_string(),
                what: fault.what,
                remedy,
                object: self.name.clone(),
            });
        }
        problems
    }
}

/// The remedy for a value that lacks its quotes, with the value as the text spells it: `1.10`, not `1.1`.
fn quoted(text: &str, at: Position) -> Option<String> {
    let line = text.lines().nth(at.line as usize - 1)?;
    let start = line.char_indices().nth(at.column as usize - 1)?.0;
    let value = line[start..].split([',', '}', ']', '#']).next()?.trim_end();
    let plain = !value.is_empty()
        && value.len() <= LONGEST_QUOTED
        && !value.contains(['"', '\'', ':', '*', '&', '!']);
    plain.then(|| format!("quote it: \"{value}\""))
}

/// Numbers and booleans are short; anything longer is no such value.
const LONGEST_QUOTED: usize = 40;
