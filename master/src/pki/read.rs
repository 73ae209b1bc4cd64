//! Parses certificates and keys from PEM. Pure.

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::names::Names;
use super::request::address;

/// Maximum number of certificates per file. A chain has two or three.
const MAX_CERTIFICATES: usize = 16;

/// All certificates of a PEM file, in order.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    for found in CertificateDer::pem_slice_iter(pem) {
        let der = found.map_err(|error| format!("is damaged: {error}"))?;
        X509Certificate::from_der(&der)
            .map_err(|error| format!("contains a damaged certificate: {error}"))?;
        all.push(der);
        if all.len() > MAX_CERTIFICATES {
            return Err(format!("contains more than {MAX_CERTIFICATES} certificates"));
        }
    }
    if all.is_empty() {
        Err("contains no certificate (-----BEGIN CERTIFICATE-----)".to_owned())
    } else {
        Ok(all)
    }
}

/// The private key of a PEM file, which may contain certificates too.
pub fn key(pem: &[u8]) -> Result<KeyPair, String> {
    let der = rustls::pki_types::PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| {
        "contains no key in PKCS #8 format (-----BEGIN PRIVATE KEY-----; convert others with `openssl pkcs8 -topk8 -nodes`)"
            .to_owned()
    })?;
    KeyPair::try_from(&der).map_err(|error| format!("contains an unusable key: {error}"))
}

/// The fields of a certificate that this module uses.
#[derive(Clone, Debug)]
pub struct CertificateInfo {
    /// Subject in DER.
    pub subject: Vec<u8>,
    /// SubjectPublicKeyInfo in DER.
    pub spki: Vec<u8>,
    /// The public key without its algorithm.
    public_key: Vec<u8>,
    /// SubjectKeyIdentifier, if there is one.
    pub key_id: Option<Vec<u8>>,
    /// True for CA certificates.
    pub is_ca: bool,
    /// Path length constraint, if there is one.
    pub path_length: Option<u32>,
    /// Start of the validity, as Unix time.
    pub not_before: i64,
    /// End of the validity, as Unix time.
    pub not_after: i64,
    /// DNS and IP alternative names.
    pub names: Names,
}

impl CertificateInfo {
    /// Parses a certificate (DER).
    pub fn of(der: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| format!("contains a damaged certificate: {error}"))?;
        let key_id = certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        let mut names = Names::default();
        if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
            for name in &alternative.value.general_names {
                match name {
                    GeneralName::DNSName(name) => drop(names.dns.insert((*name).to_owned())),
                    GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                    _ => {}
                }
            }
        }
        Ok(Self {
            subject: certificate.subject().as_raw().to_vec(),
            spki: certificate.public_key().raw.to_vec(),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
            key_id,
            is_ca: certificate.is_ca(),
            path_length: certificate
                .basic_constraints()
                .ok()
                .flatten()
                .and_then(|found| found.value.path_len_constraint),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            names,
        })
    }

    /// True if the certificate contains this key.
    pub fn matches_key(&self, key: &KeyPair) -> bool {
        self.public_key == key.der_bytes()
    }

    /// True after the end of the validity.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now.as_second() > self.not_after
    }

    /// True if less than a third of the lifetime is left.
    pub fn needs_renewal(&self, now: Timestamp) -> bool {
        let life = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(now.as_second()) < life / 3
    }
}

/// Validity period and name of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Common name, or the whole subject if it has none.
    pub name: String,
    /// Start of the validity.
    pub from: Timestamp,
    /// End of the validity.
    pub until: Timestamp,
    /// Whether the certificate is a CA certificate.
    pub is_ca: bool,
}

impl Validity {
    /// When the master renews its own certificate: when a third of the lifetime is left.
    pub fn renewal_time(&self) -> Timestamp {
        let third = self.until.duration_since(self.from) / 3;
        self.until.checked_sub(third).unwrap_or(self.until)
    }

    /// Parses a certificate.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn of(der: &[u8]) -> Result<Self, String> {
        let damaged = |error: &dyn std::fmt::Display| format!("contains a damaged certificate: {error}");
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| damaged(&error))?;
        let subject = certificate.subject();
        let common = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let validity = certificate.validity();
        let at = |second: i64| Timestamp::from_second(second).map_err(|error| damaged(&error));
        Ok(Self {
            name: common.map_or_else(|| subject.to_string(), str::to_owned),
            from: at(validity.not_before.timestamp())?,
            until: at(validity.not_after.timestamp())?,
            is_ca: certificate.is_ca(),
        })
    }
}
