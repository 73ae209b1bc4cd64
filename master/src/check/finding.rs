//! What was found: of what, what is wrong with it, why, and what to do about it. Pure.

use std::fmt;

use crate::controllers::Object;

/// Whether a cluster with it is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is not: something does not work, or everybody may do what nobody should.
    Problem,
    /// It is, and somebody should know all the same.
    Warning,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A part of the master: its port, a file of its directory, its clock.
    Part(String),
    /// An object of the API; the namespace is empty for what lies in none.
    Object {
        /// Kind.
        kind: &'static str,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
}

impl Subject {
    /// An object that was read.
    pub fn of(kind: &'static str, object: &Object) -> Self {
        Self::Object { kind, namespace: object.namespace.clone(), name: object.name.clone() }
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

/// One thing that is wrong. The texts are parts of one sentence: `SUBJECT: WHAT: CAUSE; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// What is wrong.
    pub what: String,
    /// Why, where that is known; empty otherwise.
    pub cause: String,
    /// What a person can do about it.
    pub remedy: String,
}

impl Finding {
    /// Something without which a cluster is not healthy.
    pub fn problem(subject: impl Into<Subject>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (subject, what, remedy) = (subject.into(), what.into(), remedy.into());
        Self { severity: Severity::Problem, subject, what, cause: String::new(), remedy }
    }

    /// Something that somebody should know.
    pub fn warning(subject: impl Into<Subject>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::problem(subject, what, remedy) }
    }

    /// The same with its cause.
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: one_line(&cause.into()), ..self }
    }

    /// The same, that bad.
    pub fn graded(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

/// Messages of others may have many lines and no end; a finding is a line.
const LONGEST_CAUSE: usize = 600;

fn one_line(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(LONGEST_CAUSE) {
        line.truncate(at);
        line.push('…');
    }
    // The cure follows a semicolon of our own.
    line.trim_end_matches(['.', ';', ':']).to_owned()
}

/// So many of that: `1 pod`, `2 pods`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// One thing that was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Its name: `nodes`.
    pub name: &'static str,
    /// What is wrong; nothing when all is well.
    pub findings: Vec<Finding>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order in which a person would look.
    pub checks: Vec<Checked>,
}

impl Report {
    /// Adds what was found.
    pub fn add(&mut self, name: &'static str, findings: Vec<Finding>) {
        self.checks.push(Checked { name, findings });
    }

    /// Every finding with the name of its check, problems before warnings.
    pub fn findings(&self) -> Vec<(&'static str, &Finding)> {
        let mut all: Vec<_> = self
            .checks
            .iter()
            .flat_map(|check| check.findings.iter().map(|finding| (check.name, finding)))
            .collect();
        all.sort_by_key(|(_, finding)| finding.severity);
        all
    }

    /// How many findings are that bad.
    pub fn count(&self, severity: Severity) -> usize {
        self.checks.iter().flat_map(|check| &check.findings).filter(|f| f.severity == severity).count()
    }

    /// Checks in which nothing was found.
    pub fn fine(&self) -> usize {
        self.checks.iter().filter(|check| check.findings.is_empty()).count()
    }

    /// Whether the cluster is healthy, as far as anybody could look.
    pub fn is_healthy(&self) -> bool {
        self.count(Severity::Problem) == 0
    }
}
