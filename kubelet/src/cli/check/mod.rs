//! `kubelet check`: what is wrong with manifests, before they run.

mod inspect;
mod missing;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use api::problem::Problem;
use serde_json::{Value, json};

use self::inspect::{Input, Report, by_place, inspect};
use super::args::{Check, CheckFormat};
use super::print::{out, say};
use crate::desired::FoundProblem;
use crate::observed::Timestamp;
use crate::sources::{file, url};

/// Exit code when something is wrong with a manifest.
const PROBLEMS: u8 = 1;
/// Exit code when something cannot be read.
const UNREADABLE: u8 = 2;

/// Runs the verb.
pub fn run(check: &Check) -> ExitCode {
    let host_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let node = check.hostname_override.clone().unwrap_or_else(host_name).to_lowercase();
    let (mut inputs, mut unreadable) = (Vec::new(), Vec::new());
    for from in &check.from {
        match read(from) {
            Ok(read) => inputs.extend(read),
            Err(why) => unreadable.push((from.as_str(), why)),
        }
    }
    let report = inspect(&inputs, &node, Timestamp::now());
    let text = match check.format {
        CheckFormat::Text => as_text(&report),
        CheckFormat::Json => format!("{:#}\n", as_json(&report, &unreadable)),
    };
    // Whoever closed the pipe has read enough; the code says the rest.
    let _ = out(text.as_bytes());
    for (from, why) in &unreadable {
        say(format_args!("kubelet: {from} cannot be read: {why}"));
    }
    match (unreadable.is_empty(), report.problems.is_empty()) {
        (false, _) => ExitCode::from(UNREADABLE),
        (true, false) => ExitCode::from(PROBLEMS),
        (true, true) => ExitCode::SUCCESS,
    }
}

/// Reads what an argument names.
fn read(from: &str) -> Result<Vec<Input>, String> {
    if from == "-" {
        let mut bytes = Vec::new();
        let limit = api::decode::MAX_MANIFEST_BYTES as u64 + 1;
        io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        return Ok(vec![Input { origin: from.to_owned(), read: Ok(bytes) }]);
    }
    if from.starts_with("http://") || from.starts_with("https://") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let bytes = runtime.block_on(url::read(from, &Vec::new())).map_err(|problem| problem.what)?;
        return Ok(vec![Input { origin: from.to_owned(), read: Ok(bytes) }]);
    }
    let files = file::read(Path::new(from)).map_err(|error| error.to_string())?;
    let inputs = files.into_iter().map(|(path, read)| Input { origin: path.display().to_string(), read });
    Ok(inputs.collect())
}

fn as_text(report: &Report) -> String {
    let problems = report.problems.iter().map(|found| (found, found.to_string()));
    let warnings = report.warnings.iter().map(|found| (found, warning(found)));
    let mut lines: Vec<_> = problems.chain(warnings).collect();
    lines.sort_by(|(a, _), (b, _)| by_place(a, b));
    let mut text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    text.push_str(&format!("{} fine", counted(report.fine, "object")));
    for (found, what) in [(&report.problems, "problem"), (&report.warnings, "warning")] {
        if !found.is_empty() {
            text.push_str(&format!(", {}", counted(found.len(), what)));
        }
    }
    text + "\n"
}

/// `FILE:LINE:COLUMN: warning: FIELD: WHAT; REMEDY`, as compilers do.
fn warning(found: &FoundProblem) -> String {
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
        "unreadable": unreadable.iter().map(|(from, why)| json!({"file": from, "what": why})).collect::<Vec<_>>(),
    })
}
