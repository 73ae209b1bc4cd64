//! Converts field errors to causes.

use serde_json::Value;

use super::causes::{LABEL, SUBDOMAIN, shown_value};
use super::{Cause, Json, Reason};
use crate::field_error::{ErrorType, FieldError};
use crate::path::OwnedStep;

/// The cause for an error in `object`.
pub(super) fn cause(error: &FieldError, object: &Json) -> Cause {
    let field = error.path.to_string();
    let value = value_at(object, error.path.steps());
    // Values of Secrets are never shown.
    let is_secret = object.get("kind").and_then(Value::as_str) == Some("Secret");
    let shown = match value {
        Some(_) if is_secret => "\"<secret contents redacted>\"".to_owned(),
        value => shown_value(value.unwrap_or(&Value::Null)),
    };
    match &error.error_type {
        ErrorType::DnsLabel => Cause::invalid(field, shown, LABEL),
        ErrorType::DnsSubdomain => Cause::invalid(field, shown, SUBDOMAIN),
        ErrorType::Required => Cause::required(field, &error.remedy),
        ErrorType::Duplicate => Cause::duplicate(field, shown),
        ErrorType::NoneOf(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Cause::not_supported(field, value.and_then(Value::as_str).unwrap_or_default(), &known)
        }
        ErrorType::Invalid => Cause {
            field,
            reason: Reason::Invalid,
            message: format!("Invalid value: {shown}: {}; {}", error.what, error.remedy),
        },
    }
}

fn value_at<'a>(object: &'a Json, steps: &[OwnedStep]) -> Option<&'a Value> {
    let (first, rest) = steps.split_first()?;
    let mut value = match first {
        OwnedStep::Field(name) | OwnedStep::Key(name) => object.get(name)?,
        OwnedStep::Index(_) => return None,
    };
    for step in rest {
        value = match step {
            OwnedStep::Field(name) | OwnedStep::Key(name) => value.get(name)?,
            OwnedStep::Index(at) => value.get(at)?,
        };
    }
    Some(value)
}
