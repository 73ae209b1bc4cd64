//! Field errors: the path of a field, its error, and the remedy.

use crate::path::{Path, PathBuf};

/// Limit for the errors that are kept for one document, so that a hostile file stays cheap.
pub const MAX_ERRORS: usize = 100;

/// The part of a field that an error refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The value of the field.
    Value,
    /// The field name or map key.
    Name,
    /// A value that would be valid in quotes. The remedy shows the value as it is written.
    Unquoted,
}

/// The type of a field error, as in `field.ErrorType`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ErrorType {
    /// The value is invalid.
    #[default]
    Invalid,
    /// The value is missing.
    Required,
    /// The value is a duplicate.
    Duplicate,
    /// The value must be a DNS label.
    DnsLabel,
    /// The value must be a DNS subdomain.
    DnsSubdomain,
    /// The value is not one of these allowed values.
    NoneOf(Vec<String>),
}

/// A field error without a position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field.
    pub path: PathBuf,
    /// The part of the field that the error refers to.
    pub target: Target,
    /// The type of the error.
    pub error_type: ErrorType,
    /// The description of the error.
    pub what: String,
    /// The remedy: what to write instead.
    pub remedy: String,
}

/// A list of field errors, limited to [`MAX_ERRORS`].
#[derive(Debug, Default)]
pub struct FieldErrors {
    kept: Vec<FieldError>,
    found: usize,
}

impl FieldErrors {
    /// Adds an error of the value at `path`.
    pub fn add(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.add_at(path, Target::Value, what, remedy);
    }

    /// Adds an error that refers to `target` at `path`.
    pub fn add_at(
        &mut self,
        path: &Path<'_>,
        target: Target,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(path, target, ErrorType::Invalid, what, remedy);
    }

    /// Adds an error of a type other than [`ErrorType::Invalid`].
    pub fn add_typed(
        &mut self,
        path: &Path<'_>,
        error_type: ErrorType,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(path, Target::Value, error_type, what, remedy);
    }

    /// Adds the error that the value at `path` is a duplicate.
    pub fn duplicate(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.add_typed(path, ErrorType::Duplicate, what, remedy);
    }

    fn note(
        &mut self,
        path: &Path<'_>,
        target: Target,
        error_type: ErrorType,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.found += 1;
        if !self.is_full() {
            let (path, what, remedy) = (path.to_owned(), what.into(), remedy.into());
            self.kept.push(FieldError { path, target, error_type, what, remedy });
        }
    }

    /// Adds an existing error.
    pub fn push(&mut self, error: FieldError) {
        self.found += 1;
        if !self.is_full() {
            self.kept.push(error);
        }
    }

    /// The kept errors.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.kept.iter()
    }

    /// True if there are no errors.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// True if the limit is reached. Further errors are only counted, so callers need not format them.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= MAX_ERRORS
    }

    /// The number of errors, including those that were not kept.
    pub fn len(&self) -> usize {
        self.found
    }

    /// Returns the kept errors, in the order in which they were added.
    pub fn into_vec(self) -> Vec<FieldError> {
        self.kept
    }
}
