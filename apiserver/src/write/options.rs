//! Query options of writes.

use api::strategy::{Cause, Reason};
use axum::extract::Query;
use http::{Method, Uri};

use super::patch::APPLY;
use crate::request::query_switch;
use crate::status::Status;

/// Maximum length of a field manager in bytes.
const MANAGER_MAX: usize = 128;

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// True for a dry run, which stores nothing.
    pub dry_run: bool,
    /// Field manager.
    pub field_manager: Option<String>,
    /// True if a server-side apply takes over conflicting fields.
    pub force: bool,
    /// How unknown and repeated fields are handled.
    pub validation: Validation,
    /// Grace period of a delete. DeleteOptions in the body take precedence.
    pub grace_seconds: Option<i64>,
    /// Propagation policy of a delete. DeleteOptions in the body take precedence.
    pub propagation: Option<String>,
    /// The deprecated option `orphanDependents`.
    pub orphan: Option<bool>,
}

/// How unknown and repeated fields are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Validation {
    /// The fields are dropped.
    Ignore,
    /// The fields are dropped with a warning. This is the default.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

impl Options {
    /// Parses the query.
    ///
    /// # Errors
    /// 400 for an unreadable query, 422 for invalid parameters.
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
                    causes.extend(check_dry_run(&[&value]));
                }
                "fieldManager" => options.field_manager = Some(value).filter(|manager| !manager.is_empty()),
                "force" => force = Some(query_switch(&value)),
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
                        Status::bad_request(format!("{name}: \"{value}\" is not a number of seconds"))
                    })?;
                    options.grace_seconds = Some(seconds);
                }
                "propagationPolicy" => options.propagation = Some(value).filter(|policy| !policy.is_empty()),
                "orphanDependents" => options.orphan = Some(query_switch(&value)),
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

/// Validates a field manager.
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

/// Validates `dryRun`: only `All` is supported.
pub(super) fn check_dry_run(stages: &[&str]) -> Option<Cause> {
    let message = || {
        let stage_names = stages.iter().map(|stage| format!("{stage:?}")).collect::<Vec<_>>().join(",");
        format!("Unsupported value: [{stage_names}]: supported values: \"All\"")
    };
    let is_wrong = stages.iter().any(|stage| *stage != "All");
    is_wrong.then(|| Cause { field: "dryRun".to_owned(), reason: Reason::NotSupported, message: message() })
}

/// The error for invalid options.
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
