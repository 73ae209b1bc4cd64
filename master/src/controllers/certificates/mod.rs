//! Requests for certificates: decided by policy, signed when approved, and gone when nobody needs them any more.

mod approve;
mod clean;
mod sign;
mod webhook;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::approve::Approver;
pub use self::clean::Cleaner;
pub use self::sign::Signing;
pub use self::webhook::Webhook;
use super::client::{Json, Kind};
use super::object::{at, text};

/// The names of the controllers in `--controllers`.
pub const APPROVING: &str = "certificatesigningrequest-approving-controller";
/// Signs.
pub const SIGNING: &str = "certificatesigningrequest-signing-controller";
/// Cleans.
pub const CLEANING: &str = "certificatesigningrequest-cleaner-controller";
/// The service account of them all.
pub const ACCOUNT: &str = "certificate-controller";

/// Requests.
const KIND: Kind =
    Kind::of("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false);

/// When a condition of that type was last written; `None` where there is none of it.
fn condition(request: &Json, kind: &str) -> Option<Option<Timestamp>> {
    let all = at(request, "/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let own = all.into_iter().find(|condition| text(condition.get("type")) == kind)?;
    Some(text(own.get("lastUpdateTime")).parse().ok())
}

fn has(request: &Json, kind: &str) -> bool {
    condition(request, kind).is_some()
}

fn is_decided(request: &Json) -> bool {
    has(request, "Approved") || has(request, "Denied")
}

fn is_signed(request: &Json) -> bool {
    !text(at(request, "/status/certificate")).is_empty()
}

/// The PEM of what is asked for, or of what was signed; both lie in base64.
fn pem(request: &Json, pointer: &str) -> Vec<u8> {
    STANDARD.decode(text(at(request, pointer))).unwrap_or_default()
}

fn texts(request: &Json, pointer: &str) -> Vec<String> {
    let all = at(request, pointer).and_then(Value::as_array).into_iter().flatten();
    all.map(|one| text(Some(one))).collect()
}

/// The request with one condition more.
fn with_condition(mut request: Json, kind: &str, reason: &str, message: &str, now: Timestamp) -> Json {
    let now = api::time::seconds(now);
    let condition = json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    });
    let status = request.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        match status.entry("conditions").or_insert_with(|| json!([])) {
            Value::Array(all) => all.push(condition),
            other => *other = json!([condition]),
        }
    }
    request
}

#[cfg(test)]
mod tests;
