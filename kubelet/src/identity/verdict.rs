//! What has become of a request, read from the object. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has decided.
    Pending,
    /// Somebody has said yes, and nobody has signed.
    Approved,
    /// Here it is, PEM.
    Signed(Vec<u8>),
    /// Somebody has said no, and why.
    Denied(String),
    /// The signer cannot sign it, and why.
    Failed(String),
}

impl Verdict {
    /// Reads a CertificateSigningRequest.
    pub fn of(request: &Value) -> Self {
        let status = &request["status"];
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let condition = |kind: &str| {
            let found = conditions.iter().find(|condition| condition["type"] == kind)?;
            let text = |field: &str| found[field].as_str().filter(|text| !text.is_empty());
            Some(text("message").or_else(|| text("reason")).unwrap_or("no reason is given").to_owned())
        };
        // What was denied is not to be used, whatever else stands there.
        if let Some(why) = condition("Denied") {
            return Self::Denied(why);
        }
        if let Some(why) = condition("Failed") {
            return Self::Failed(why);
        }
        let signed = status["certificate"].as_str().filter(|text| !text.is_empty());
        match signed.and_then(|text| STANDARD.decode(text).ok()) {
            Some(pem) => Self::Signed(pem),
            None if condition("Approved").is_some() => Self::Approved,
            None => Self::Pending,
        }
    }
}
