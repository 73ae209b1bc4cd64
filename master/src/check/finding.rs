//! Findings of the diagnostics: subject, fault, cause and remedy. Pure.

use std::fmt;

use crate::objects::ObjectMeta;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The cluster is not healthy: something does not work or is not secure.
    Problem,
    /// The cluster is healthy, but an administrator should know.
    Warning,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A part of the master, such as its port, a file in its directory, or its clock.
    Part(String),
    /// An API object. The namespace is empty for cluster-scoped objects.
    Object { kind: &'static str, namespace: String, name: String },
}

impl Subject {
    /// Creates the subject for an object.
    pub fn of<Annotations>(kind: &'static str, object: &ObjectMeta<Annotations>) -> Self {
        Self::Object { kind, namespace: object.namespace.to_string(), name: object.name.to_string() }
    }
}

impl From<&str> for Subject {
    fn from(part: &str) -> Self {
        Self::Part(part.to_owned())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => f.write_str(part),
            Self::Object { kind, namespace, name } if namespace.is_empty() => write!(f, "{kind} {name}"),
            Self::Object { kind, namespace, name } => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// A finding. The texts form one sentence: `SUBJECT: WHAT: CAUSE; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub subject: Subject,
    /// The fault, as a clause without a full stop.
    pub what: String,
    /// The cause; empty if it is unknown.
    pub cause: String,
    /// What an administrator can do about it.
    pub remedy: String,
}

impl Finding {
    /// Returns a finding with severity [`Severity::Problem`].
    pub fn problem(subject: impl Into<Subject>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (subject, what, remedy) = (subject.into(), what.into(), remedy.into());
        Self { severity: Severity::Problem, subject, what, cause: String::new(), remedy }
    }

    /// Returns a finding with severity [`Severity::Warning`].
    pub fn warning(subject: impl Into<Subject>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::problem(subject, what, remedy) }
    }

    /// Sets the cause.
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: one_line(&cause.into()), ..self }
    }

    /// Sets the severity.
    pub fn graded(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

/// Maximum length of a cause in characters. Causes may contain messages of other components.
const LONGEST_CAUSE: usize = 600;

fn one_line(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(LONGEST_CAUSE) {
        line.truncate(at);
        line.push('…');
    }
    // A semicolon and the remedy follow.
    line.trim_end_matches(['.', ';', ':']).to_owned()
}

/// Formats a count with its noun, such as `1 pod` or `2 pods`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Name of the check, such as `nodes`.
    pub name: &'static str,
    /// Findings; empty if everything is fine.
    pub findings: Vec<Finding>,
}

/// The results of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checks, in the order in which an administrator would look.
    pub checks: Vec<Checked>,
}

impl Report {
    /// Adds the result of a check.
    pub fn add(&mut self, name: &'static str, findings: Vec<Finding>) {
        self.checks.push(Checked { name, findings });
    }

    /// All findings with the names of their checks, problems first.
    pub fn findings(&self) -> Vec<(&'static str, &Finding)> {
        let mut all: Vec<_> = self
            .checks
            .iter()
            .flat_map(|check| check.findings.iter().map(|finding| (check.name, finding)))
            .collect();
        all.sort_by_key(|(_, finding)| finding.severity);
        all
    }

    /// Number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.checks.iter().flat_map(|check| &check.findings).filter(|f| f.severity == severity).count()
    }

    /// Number of checks without findings.
    pub fn fine(&self) -> usize {
        self.checks.iter().filter(|check| check.findings.is_empty()).count()
    }

    /// True if there is no problem. Warnings do not count.
    pub fn is_healthy(&self) -> bool {
        self.count(Severity::Problem) == 0
    }
}
