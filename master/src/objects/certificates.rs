//! CertificateSigningRequests.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::meta::{Condition, ObjectMeta};
use super::values::List;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: CertificateSigningRequestSpec,
    pub status: CertificateSigningRequestStatus,
}

/// `spec` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateSigningRequestSpec {
    /// The request, PEM in base64.
    pub request: Box<str>,
    pub signer_name: Box<str>,
    /// Key usages, such as `client auth`.
    pub usages: List<Box<str>>,
    /// Requested lifetime of the certificate.
    pub expiration_seconds: Option<i64>,
    /// User who created the request.
    pub username: Box<str>,
    /// UID of the user.
    pub uid: Box<str>,
    /// Groups of the user.
    pub groups: List<Box<str>>,
    /// Further attributes of the user.
    pub extra: BTreeMap<Box<str>, List<Box<str>>>,
}

/// `status` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequestStatus {
    pub conditions: List<Condition>,
    /// The certificate chain, PEM in base64. Empty until the request is signed.
    pub certificate: Box<str>,
}

impl CertificateSigningRequest {
    /// Whether the request has a condition of the given type. The status of such a condition is always `True`.
    pub fn has(&self, kind: &str) -> bool {
        self.status.conditions.of_type(kind).is_some()
    }

    /// Whether the request was approved or denied.
    pub fn is_decided(&self) -> bool {
        self.has("Approved") || self.has("Denied")
    }

    /// Whether the certificate was issued.
    pub fn is_signed(&self) -> bool {
        !self.status.certificate.is_empty()
    }

    /// Returns the request as PEM.
    ///
    /// # Errors
    /// If the field is not base64.
    pub fn request(&self) -> Result<Vec<u8>, base64::DecodeError> {
        STANDARD.decode(&*self.spec.request)
    }

    /// Returns the certificate chain as PEM, or nothing if there is none.
    pub fn certificate(&self) -> Vec<u8> {
        STANDARD.decode(&*self.status.certificate).unwrap_or_default()
    }

    /// The requested key usages.
    pub fn usages(&self) -> Vec<&str> {
        self.spec.usages.iter().map(|usage| &**usage).collect()
    }

    /// Returns the first value of a further attribute of the user, or an empty text if it is missing.
    pub fn extra(&self, name: &str) -> &str {
        self.spec.extra.get(name).and_then(|values| values.first()).map_or("", |value| &**value)
    }
}
