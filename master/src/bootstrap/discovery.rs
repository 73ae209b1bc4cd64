//! The cluster-info file that a discovery host outside the cluster serves.
//!
//! The file is the cluster-info document with the fields `servingCertificate` and `servingKey` (PEM). The cluster's
//! CA signed the certificate for the host's name. The file contains no other secret: an attacker who steals it can
//! only serve the document.

use jiff::Timestamp;
use serde_json::Value;

use super::ClusterInfo;
use crate::pki::{self, Credentials, Serving};

/// The fields that are not served.
const CERTIFICATE: &str = "servingCertificate";
const KEY: &str = "servingKey";

/// The content of the file.
#[derive(Debug)]
pub struct DiscoveryFile {
    /// The document to serve.
    pub info: ClusterInfo,
    /// The serving certificate and key.
    pub serving: Serving,
    /// SHA-256 of the CA's public key in hex. Join strings pin this hash.
    pub hash: String,
    /// When the serving certificate expires.
    pub until: Timestamp,
}

impl DiscoveryFile {
    /// Formats the file.
    pub fn text(info: &ClusterInfo, shown: &Credentials) -> String {
        let mut document = info.static_fields();
        document.insert(CERTIFICATE.to_owned(), shown.certificates.as_str().into());
        document.insert(KEY.to_owned(), shown.key.as_str().into());
        format!("{:#}\n", Value::from(document))
    }

    /// Parses the file.
    ///
    /// # Errors
    /// If the text is no valid discovery document. The error starts with a verb, so that the caller can prepend the
    /// file name.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let info = ClusterInfo::read(&document)?;
        let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let shown = Credentials { certificates: field(CERTIFICATE), key: field(KEY) };
        let (serving, until) = pki::discovery_serving(&shown, &info.authority, now)?;
        let hash = pki::ca_hash(info.authority.as_bytes())?;
        Ok(Self { info, serving, hash, until })
    }
}

#[cfg(test)]
mod tests;
