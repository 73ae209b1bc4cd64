//! What the typed checks find, told as clients of Kubernetes know it.

use serde_json::Value;

use super::causes::{LABEL, SUBDOMAIN, shown_value};
use super::{Cause, Json, Reason};
use crate::fault::{Fault, Why};
use crate::path::OwnedStep;

/// The cause for a finding in `object`.
pub(super) fn cause(fault: &Fault, object: &Json) -> Cause {
    let field = fault.path.to_string();
    let value = value_at(object, fault.path.steps());
    // What a Secret holds is shown to nobody, mistaken or not.
    let is_secret = object.get("kind").and_then(Value::as_str) == Some("Secret");
    let shown = match value {
        Some(_) if is_secret => "\"<secret contents redacted>\"".to_owned(),
        value => shown_value(value.unwrap_or(&Value::Null)),
    };
    match &fault.why {
        Why::DnsLabel => Cause::invalid(field, shown, LABEL),
        Why::DnsSubdomain => Cause::invalid(field, shown, SUBDOMAIN),
        Why::Required => Cause::required(field, &fault.remedy),
        Why::Duplicate => Cause::duplicate(field, shown),
        Why::NoneOf(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Cause::not_supported(field, value.and_then(Value::as_str).unwrap_or_default(), &known)
        }
        Why::Invalid => Cause {
            field,
            reason: Reason::Invalid,
            message: format!("Invalid value: {shown}: {}; {}", fault.what, fault.remedy),
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
