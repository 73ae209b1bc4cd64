//! Formats a report as text, in the format of `kubelet check`, and as JSON. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use command::visible;
use serde_json::{Value, json};

use super::finding::{Finding, Report, Severity, Subject, counted};

/// Maximum number of lines per check and severity. A single lost node may affect a thousand pods.
const MOST_LINES: usize = 20;

/// Formats one line per finding (`SUBJECT: WHAT: CAUSE; REMEDY`), problems first, and a summary.
pub fn as_text(report: &Report) -> String {
    let mut text = String::new();
    let mut counts: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for (check, finding) in report.findings() {
        let count = counts.entry((finding.severity, check)).or_default();
        *count += 1;
        if *count <= MOST_LINES {
            let _ = writeln!(text, "{}", line(finding));
        }
    }
    for ((severity, check), count) in counts {
        if count > MOST_LINES {
            let more = counted(count - MOST_LINES, noun(severity));
            let _ = writeln!(text, "{check}: {more} more like these; `--format json` has them all");
        }
    }
    let _ = write!(text, "{} fine", counted(report.fine(), "check"));
    for severity in [Severity::Problem, Severity::Warning] {
        let count = report.count(severity);
        if count > 0 {
            let _ = write!(text, ", {}", counted(count, noun(severity)));
        }
    }
    text + "\n"
}

pub fn line(finding: &Finding) -> String {
    let Finding { severity, subject, what, cause, remedy } = finding;
    let mark = if *severity == Severity::Warning { "warning: " } else { "" };
    let why = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    // Messages of events and images come from other users, and may contain control sequences.
    visible(&format!("{subject}: {mark}{what}{why}; {remedy}")).into_owned()
}

fn noun(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "problem",
        Severity::Warning => "warning",
    }
}

pub fn as_json(report: &Report) -> Value {
    let of = |wanted: Severity| -> Value {
        let all = report.findings().into_iter().filter(|(_, finding)| finding.severity == wanted);
        all.map(|(check, finding)| entry(check, finding)).collect()
    };
    json!({
        "healthy": report.is_healthy(),
        "fine": report.fine(),
        "problems": of(Severity::Problem),
        "warnings": of(Severity::Warning),
    })
}

fn entry(check: &str, finding: &Finding) -> Value {
    let object = match &finding.subject {
        Subject::Part(_) => Value::Null,
        Subject::Object { kind, namespace, name } => {
            json!({"kind": kind, "namespace": namespace, "name": name})
        }
    };
    json!({
        "check": check,
        "about": finding.subject.to_string(),
        "object": object,
        "what": finding.what,
        "cause": finding.cause,
        "remedy": finding.remedy,
    })
}
