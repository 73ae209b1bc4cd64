//! The CertificateSigningRequest controllers: approving, signing and cleaning up.

mod approver;
mod cleaner;
mod name_in_use;
mod signer;
mod webhook;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::approver::CsrApprovingController;
pub use self::cleaner::CsrCleanerController;
pub use self::name_in_use::CONDITION as NAME_IN_USE;
pub use self::signer::CsrSigningController;
pub use self::webhook::Webhook;
use super::object::{at, text};

/// The name of the approving controller in `--controllers`.
pub const APPROVING: &str = "certificatesigningrequest-approving-controller";
/// The name of the signing controller.
pub const SIGNING: &str = "certificatesigningrequest-signing-controller";
/// The name of the cleaner.
pub const CLEANING: &str = "certificatesigningrequest-cleaner-controller";
/// The service account of all three controllers.
pub const ACCOUNT: &str = "certificate-controller";

/// The kind `CertificateSigningRequest`.
const KIND: Kind =
    Kind::of("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false);

/// The last update time of a condition; `None` if the request lacks the condition.
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

/// Decodes a base64 field that holds PEM: the request or the certificate.
fn pem(request: &Json, pointer: &str) -> Vec<u8> {
    STANDARD.decode(text(at(request, pointer))).unwrap_or_default()
}

fn texts(request: &Json, pointer: &str) -> Vec<String> {
    let all = at(request, pointer).and_then(Value::as_array).into_iter().flatten();
    all.map(|one| text(Some(one))).collect()
}

/// Removes all conditions of a type.
fn without_condition(mut request: Json, kind: &str) -> Json {
    let all = request.get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    if let Some(all) = all {
        all.retain(|condition| text(condition.get("type")) != kind);
    }
    request
}

/// Adds a condition.
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
