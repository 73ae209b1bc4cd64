//! How a write is wanted, read from its query.

use api::strategy::{Cause, Reason};
use axum::extract::Query;
use http::{Method, Uri};

use super::patch::APPLY;
use crate::request::boolean;
use crate::status::Status;

/// Bytes of the longest name of a field manager: it stands in every object that it writes.
const MANAGER_MAX: usize = 128;

/// How a write is wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Decide everything and write nothing.
    pub dry_run: bool,
    /// Who writes, as the client calls itself.
    pub field_manager: Option<String>,
    /// Take fields that others own (server-side apply).
    pub force: bool,
    /// What is done about fields that the kind does not have.
    pub validation: Validation,
    /// How long a deleted pod may take to end; the body of a deletion may say it as well.
    pub grace_seconds: Option<i64>,
    /// What becomes of a deleted object's dependents; the body of a deletion may say it as well.
    pub propagation: Option<String>,
    /// The same in older words: they are to stay.
    pub orphan: Option<bool>,
}

/// What is done about fields that the kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Validation {
    /// They go without a word.
    Ignore,
    /// They go, with a warning; the stock server's default.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

impl Options {
    /// Reads the query of a request with that method, whose body is of that type.
    ///
    /// # Errors
    /// 400 for a query that cannot be read, 422 that names every parameter that makes no sense.
    pub fn parse(uri: &Uri, method: &Method, media_type: &str) -> Result<Self, Status> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Status::bad_request(format!("cannot read the query: {error}")))?;
        let mut options = Self::default();
        let (mut causes, mut force) = (Vec::new(), None);
        for (name, value) in pairs.0 {
            match name.as_str() {
                "dryRun" if value.is_empty() => {}
                "dryRun" => {
                    options.dry_run = true;
                    causes.extend(trial(&[&value]));
                }
                "fieldManager" => options.field_manager = Some(value).filter(|manager| !manager.is_empty()),
                "force" => force = Some(boolean(&value)),
                "fieldValidation" => match Validation::named(&value) {
                    Some(validation) => options.validation = validation,
                    None => {
                        causes.push(Cause::not_supported(
                            "fieldValidation",
                            &value,
                            &["", "Ignore", "Strict", "Warn"],
                        ));
                    }
                },
                "gracePeriodSeconds" => {
                    let seconds = value.parse().map_err(|_| {
                        Status::bad_request(format!("{name}: \"{value}\" is no number of seconds"))
                    })?;
                    options.grace_seconds = Some(seconds);
                }
                "propagationPolicy" => options.propagation = Some(value).filter(|policy| !policy.is_empty()),
                "orphanDependents" => options.orphan = Some(boolean(&value)),
                _ => {}
            }
        }
        options.force = force == Some(true);
        if *method == Method::PATCH && media_type == APPLY {
            if options.field_manager.is_none() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
        } else if *method == Method::PATCH && force.is_some() {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        causes.extend(options.field_manager.as_deref().and_then(wrong_manager));
        if causes.is_empty() { Ok(options) } else { Err(refused(method, &causes)) }
    }
}

impl Validation {
    fn named(word: &str) -> Option<Self> {
        match word {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// What is wrong with the name of a field manager.
fn wrong_manager(manager: &str) -> Option<Cause> {
    const FIELD: &str = "fieldManager";
    if manager.len() > MANAGER_MAX {
        let message = format!("Too long: may not be more than {MANAGER_MAX} bytes");
        return Some(Cause { field: FIELD.to_owned(), reason: Reason::TooLong, message });
    }
    let is_printed = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    let (at, odd) = manager.char_indices().find(|(_, c)| !is_printed(*c))?;
    let why = format!("invalid character U+{:04X} (at position {at})", u32::from(odd));
    Some(Cause::invalid(FIELD, format!("{manager:?}"), &why))
}

/// What is wrong with the stages that are to be tried without writing: all of them is the only choice.
pub(super) fn trial(stages: &[&str]) -> Option<Cause> {
    let message = || {
        let said = stages.iter().map(|stage| format!("{stage:?}")).collect::<Vec<_>>().join(",");
        format!("Unsupported value: [{said}]: supported values: \"All\"")
    };
    let is_wrong = stages.iter().any(|stage| *stage != "All");
    is_wrong.then(|| Cause { field: "dryRun".to_owned(), reason: Reason::NotSupported, message: message() })
}

/// Refuses the options of a request with that method.
pub(super) fn refused(method: &Method, causes: &[Cause]) -> Status {
    let kind = match *method {
        Method::POST => "CreateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "UpdateOptions",
    };
    Status::invalid_kind("meta.k8s.io", kind, "", causes)
}

#[cfg(test)]
mod tests;
