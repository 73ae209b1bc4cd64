//! `kubelet check`: validates manifests before they run.

pub mod inspect;
mod lint;
mod missing;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use api::problem::Problem;
use serde_json::{Value, json};

use self::inspect::{Host, Input, Report, by_place, inspect};
use super::args::{Check, CheckFormat};
use super::print::{note, out, visible};
use crate::desired::FoundProblem;
use crate::node::has_app_armor;
use crate::observed::Timestamp;
use crate::sources::{file, url};

/// Exit code if a manifest has an error.
const PROBLEMS: u8 = 1;
/// Exit code if a file or URL cannot be read.
const UNREADABLE: u8 = 2;

/// Runs the subcommand.
pub fn run(check: &Check) -> ExitCode {
    let host_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let node = check.hostname_override.clone().unwrap_or_else(host_name).to_lowercase();
    let (mut inputs, mut skipped, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let mut empty = Vec::new();
    for from in &check.from {
        match read(from) {
            Ok(contents) => {
                if contents.manifests.is_empty() {
                    empty.push(from.as_str());
                }
                inputs.extend(
                    contents
                        .manifests
                        .into_iter()
                        .map(|(path, read)| Input { origin: path.display().to_string(), read }),
                );
                skipped.extend(contents.skipped.iter().map(ToString::to_string));
            }
            Err(why) => unreadable.push((from.as_str(), why)),
        }
    }
    let host = Host { node, app_armor: Some(has_app_armor()) };
    let mut report = inspect(&inputs, &host, Timestamp::now());
    report.problems.extend(empty.into_iter().map(without_manifests));
    report.skipped = skipped;
    let text = match check.format {
        CheckFormat::Text => as_text(&report),
        CheckFormat::Json => format!("{:#}\n", as_json(&report, &unreadable)),
    };
    // A closed pipe is not an error; the exit code still reports the result.
    let _ = out(text.as_bytes());
    for (from, why) in &unreadable {
        note(format_args!("kubelet: {from} cannot be read: {why}"));
    }
    match (unreadable.is_empty(), report.problems.is_empty()) {
        (false, _) => ExitCode::from(UNREADABLE),
        (true, false) => ExitCode::from(PROBLEMS),
        (true, true) => ExitCode::SUCCESS,
    }
}

/// Reads the manifests of one argument.
fn read(from: &str) -> Result<file::Contents, String> {
    let one = |bytes| file::Contents {
        manifests: vec![(PathBuf::from(from), Ok(bytes))],
        ..file::Contents::default()
    };
    if from == "-" {
        let mut bytes = Vec::new();
        let limit = api::decode::MAX_MANIFEST_BYTES as u64 + 1;
        io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        return Ok(one(bytes));
    }
    if from.starts_with("http://") || from.starts_with("https://") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let bytes = runtime.block_on(url::read(from, &Vec::new())).map_err(|problem| problem.what)?;
        return Ok(one(bytes));
    }
    file::read(Path::new(from)).map_err(|error| error.to_string())
}

/// The problem of a directory without manifests.
fn without_manifests(directory: &str) -> FoundProblem {
    let problem = Problem {
        line: 0,
        column: 0,
        path: String::new(),
        what: "the directory contains no manifest".to_owned(),
        remedy: "put files there that end in .json, .yaml or .yml".to_owned(),
        object: None,
    };
    FoundProblem { origin: directory.into(), problem, last_good: false }
}

fn as_text(report: &Report) -> String {
    let problems = report.problems.iter().map(|found| (found, found.to_string()));
    let warnings = report.warnings.iter().map(|found| (found, warning(found)));
    let mut lines: Vec<_> = problems.chain(warnings).collect();
    lines.sort_by(|(a, _), (b, _)| by_place(a, b));
    let mut text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    report.skipped.iter().for_each(|entry| text.push_str(&format!("{entry}\n")));
    text.push_str(&format!("{} fine", counted(report.fine, "object")));
    for (found, what) in [(&report.problems, "problem"), (&report.warnings, "warning")] {
        if !found.is_empty() {
            text.push_str(&format!(", {}", counted(found.len(), what)));
        }
    }
    if !report.skipped.is_empty() {
        text.push_str(&format!(", {} not read", report.skipped.len()));
    }
    // Manifests and file names may contain control sequences.
    visible(&(text + "\n")).into_owned()
}

/// Formats a warning as `FILE:LINE:COLUMN: warning: FIELD: WHAT; REMEDY`, like compiler messages.
pub fn warning(found: &FoundProblem) -> String {
    let Problem { line, column, path, what, remedy, .. } = &found.problem;
    let place = if *line > 0 { format!("{line}:{column}:") } else { String::new() };
    format!("{}:{place} warning: {path}: {what}; {remedy}", found.origin)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn as_json(report: &Report, unreadable: &[(&str, String)]) -> Value {
    let problem = |FoundProblem { origin, problem, .. }: &FoundProblem| {
        json!({
            "file": **origin,
            "line": problem.line,
            "column": problem.column,
            "path": problem.path,
            "what": problem.what,
            "remedy": problem.remedy,
            "object": problem.object.as_ref().map(|object| {
                json!({"kind": object.kind, "namespace": object.namespace, "name": object.name})
            }),
        })
    };
    json!({
        "fine": report.fine,
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "warnings": report.warnings.iter().map(problem).collect::<Vec<_>>(),
        "unread": report.skipped,
        "unreadable": unreadable.iter().map(|(from, why)| json!({"file": from, "what": why})).collect::<Vec<_>>(),
    })
}
