//! The CertificateSigningRequest controllers: they approve, sign and clean up requests.

mod approver;
mod cleaner;
mod name_in_use;
mod signer;
mod webhook;

use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::approver::CsrApprovingController;
pub use self::cleaner::CsrCleanerController;
pub use self::name_in_use::CONDITION as NAME_IN_USE;
pub use self::signer::CsrSigningController;
pub use self::webhook::Webhook;
use super::object::{Source as _, unreadable};
use crate::objects::CertificateSigningRequest;

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

/// Gets a request, and the JSON to write it back. Returns `None` if it does not exist.
async fn find(client: &Client, name: &str) -> Result<Option<(CertificateSigningRequest, Json)>, Error> {
    let Some(json) = client.find(&KIND, "", name).await? else { return Ok(None) };
    let read = json.read().map_err(|source| unreadable(client, source))?;
    Ok(Some((read, json)))
}

/// Removes all conditions of a type.
fn without_condition(mut request: Json, kind: &str) -> Json {
    let all = request.get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    if let Some(all) = all {
        all.retain(|condition| condition["type"] != kind);
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
