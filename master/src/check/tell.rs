//! A report as text for people, a line a finding as `kubelet check` tells them, and as JSON for programs. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::finding::{Finding, Report, Severity, Subject, counted};

/// Lines of one check and severity: when a node is gone, a thousand pods tell the same story.
const MOST_LINES: usize = 20;

/// `SUBJECT: WHAT: CAUSE; REMEDY`, problems first, and how much there was of each.
pub fn as_text(report: &Report) -> String {
    let mut text = String::new();
    let mut told: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for (check, finding) in report.findings() {
        let count = told.entry((finding.severity, check)).or_default();
        *count += 1;
        if *count <= MOST_LINES {
            let _ = writeln!(text, "{}", line(finding));
        }
    }
    for ((severity, check), count) in told {
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

/// A finding as a line.
pub fn line(finding: &Finding) -> String {
    let Finding { severity, subject, what, cause, remedy } = finding;
    let mark = if *severity == Severity::Warning { "warning: " } else { "" };
    let why = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    format!("{subject}: {mark}{what}{why}; {remedy}")
}

fn noun(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "problem",
        Severity::Warning => "warning",
    }
}

/// Everything, for programs.
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
