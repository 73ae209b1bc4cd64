//! What the pure checks find: a path, what is wrong there, and what to write instead.

use crate::path::{Path, PathBuf};

/// How many findings of one document are kept: more than anyone reads, few enough that a hostile file costs nothing.
pub const MAX_FAULTS: usize = 100;

/// What a finding points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The value at the path.
    Value,
    /// The name at the end of the path, whatever its value.
    Name,
    /// A value that would be right in quotes; the remedy shows it as the text has it.
    Unquoted,
}

/// What sort of mistake a finding is, for clients that branch on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// The value is not what it has to be.
    #[default]
    Invalid,
    /// It is missing.
    Required,
    /// It is there twice.
    Duplicate,
    /// It is a name that must be a DNS label.
    DnsLabel,
    /// It is a name that must be a DNS subdomain.
    DnsSubdomain,
    /// It is none of these.
    NoneOf(Vec<String>),
}

/// A finding that does not know its place in a text yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the object.
    pub path: PathBuf,
    /// What exactly is wrong there.
    pub aim: Aim,
    /// What sort of mistake it is.
    pub why: Why,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

/// Collects findings, and keeps [`MAX_FAULTS`] of them.
#[derive(Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    found: usize,
}

impl Faults {
    /// Notes that the value at `path` is wrong.
    pub fn add(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.aim(path, Aim::Value, what, remedy);
    }

    /// Notes what is wrong with exactly what at `path`.
    pub fn aim(&mut self, path: &Path<'_>, aim: Aim, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(path, aim, Why::Invalid, what, remedy);
    }

    /// Notes what sort of mistake the value at `path` is.
    pub fn because(&mut self, path: &Path<'_>, why: Why, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(path, Aim::Value, why, what, remedy);
    }

    /// Notes that the value at `path` is there already.
    pub fn twice(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.because(path, Why::Duplicate, what, remedy);
    }

    fn note(
        &mut self,
        path: &Path<'_>,
        aim: Aim,
        why: Why,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.found += 1;
        if !self.are_full() {
            let (path, what, remedy) = (path.to_owned(), what.into(), remedy.into());
            self.kept.push(Fault { path, aim, why, what, remedy });
        }
    }

    /// Adds a finding from elsewhere.
    pub fn push(&mut self, fault: Fault) {
        self.found += 1;
        if !self.are_full() {
            self.kept.push(fault);
        }
    }

    /// What is kept.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.kept.iter()
    }

    /// True when nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// True when further findings are only counted, so that nobody need word them.
    pub fn are_full(&self) -> bool {
        self.kept.len() >= MAX_FAULTS
    }

    /// How many were found, kept or not.
    pub fn len(&self) -> usize {
        self.found
    }

    /// What was found, in the order it was found.
    pub fn into_vec(self) -> Vec<Fault> {
        self.kept
    }
}
