//! Printer columns of CertificateSigningRequests.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, NONE, Object, age, at, condition, name, shown, text};

/// The printer columns of CertificateSigningRequests.
pub const SIGNING_REQUESTS: Columns = Columns {
    heads: &[
        NAME,
        AGE,
        shown("SignerName", "The name of the signer."),
        shown("Requestor", "The user that created the request."),
        shown("RequestedDuration", "The requested lifetime of the certificate."),
        shown("Condition", "The state of the request."),
    ],
    cells,
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let seconds = at(object, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
    vec![
        name(object),
        age::of(object, now),
        text(object, "spec", "signerName").into(),
        text(object, "spec", "username").into(),
        seconds.map_or_else(|| NONE.to_owned(), age::duration).into(),
        state(object).into(),
    ]
}

fn state(object: &Object) -> String {
    let has = |of: &str| condition(object, of).is_some();
    let mut state = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    // Not in the table of the stock server: another machine uses the node's name.
    if has("NodeNameInUse") {
        state.push_str(",NodeNameInUse");
    }
    if !text(object, "status", "certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}
