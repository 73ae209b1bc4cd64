//! How a write is wanted, read from its query.

use axum::extract::Query;
use http::Uri;

use crate::request::boolean;
use crate::status::Status;

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
    /// Reads the query.
    ///
    /// # Errors
    /// 400 that names the parameter and what is wrong with it.
    pub fn parse(uri: &Uri) -> Result<Self, Status> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Status::bad_request(format!("cannot read the query: {error}")))?;
        let mut options = Self::default();
        for (name, value) in pairs.0 {
            let wrong =
                |allowed: &str| Status::bad_request(format!("{name}: \"{value}\" is not one of {allowed}"));
            match name.as_str() {
                "dryRun" if value.is_empty() => {}
                "dryRun" if value == "All" => options.dry_run = true,
                "dryRun" => return Err(wrong("All")),
                "fieldManager" => options.field_manager = Some(value).filter(|manager| !manager.is_empty()),
                "force" => options.force = boolean(&value),
                "fieldValidation" => {
                    options.validation = match value.as_str() {
                        "" | "Warn" => Validation::Warn,
                        "Ignore" => Validation::Ignore,
                        "Strict" => Validation::Strict,
                        _ => return Err(wrong("Ignore, Warn, Strict")),
                    }
                }
                "gracePeriodSeconds" => {
                    let seconds = value.parse().map_err(|_| wrong("the numbers of seconds"))?;
                    options.grace_seconds = Some(seconds);
                }
                "propagationPolicy" => options.propagation = Some(value),
                _ => {}
            }
        }
        Ok(options)
    }
}
