//! The bootstrap document told by a host outside the cluster, from a file that an administrator made for it.
//!
//! The file is the document with two fields more, `servingCertificate` and `servingKey` (PEM): what the host shows, signed by the
//! cluster's authority for its name. It holds nothing else of the cluster's: who takes it can tell the document, and no more.

use jiff::Timestamp;
use serde_json::Value;

use super::ClusterInfo;
use crate::pki::{self, Credentials, Serving};

/// The fields that are for the host alone.
const CERTIFICATE: &str = "servingCertificate";
const KEY: &str = "servingKey";

/// What such a file holds.
#[derive(Debug)]
pub struct Discovery {
    /// What is told.
    pub info: ClusterInfo,
    /// What is shown.
    pub serving: Serving,
    /// SHA-256 of the public key of the authority, in hex: what join strings pin.
    pub hash: String,
    /// When the certificate ends.
    pub until: Timestamp,
}

impl Discovery {
    /// The file.
    pub fn text(info: &ClusterInfo, shown: &Credentials) -> String {
        let mut document = info.lasting();
        document.insert(CERTIFICATE.to_owned(), shown.certificates.as_str().into());
        document.insert(KEY.to_owned(), shown.key.as_str().into());
        format!("{:#}\n", Value::from(document))
    }

    /// Reads it back.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with the file.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
        let info = ClusterInfo::read(&document)?;
        let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let shown = Credentials { certificates: field(CERTIFICATE), key: field(KEY) };
        let (serving, until) = pki::shown_elsewhere(&shown, &info.authority, now)?;
        let hash = pki::hash_of(info.authority.as_bytes())?;
        Ok(Self { info, serving, hash, until })
    }
}

#[cfg(test)]
mod tests;
