//! Certificates and keys from PEM, and the few facts about them that decide anything. Pure.

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::names::Names;
use super::request::address;

/// Most certificates in one file: a chain is two or three.
const MOST_CERTIFICATES: usize = 16;

/// Every certificate of a PEM file, in order, each of which reads.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    for found in CertificateDer::pem_slice_iter(pem) {
        let der = found.map_err(|error| format!("is damaged: {error}"))?;
        X509Certificate::from_der(&der).map_err(|error| format!("holds a damaged certificate: {error}"))?;
        all.push(der);
        if all.len() > MOST_CERTIFICATES {
            return Err(format!("holds more than {MOST_CERTIFICATES} certificates"));
        }
    }
    if all.is_empty() {
        Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned())
    } else {
        Ok(all)
    }
}

/// The private key of a PEM file, which may hold certificates too.
pub fn key(pem: &[u8]) -> Result<KeyPair, String> {
    let der = rustls::pki_types::PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| {
        "holds no key in PKCS #8 form (-----BEGIN PRIVATE KEY-----; `openssl pkcs8 -topk8 -nodes` makes it of others)"
            .to_owned()
    })?;
    KeyPair::try_from(&der).map_err(|error| format!("holds a key that cannot be used: {error}"))
}

/// What decides about a certificate.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The subject, as DER.
    pub subject: Vec<u8>,
    /// Public key with its algorithm, as DER.
    pub public_key_info: Vec<u8>,
    /// The bare public key.
    public_key: Vec<u8>,
    /// The identifier of its key, where it has one.
    pub key_id: Option<Vec<u8>>,
    /// Whether it may sign others.
    pub is_authority: bool,
    /// How many authorities may be on a way from it, where that is limited.
    pub path_length: Option<u32>,
    /// The first second of its life, since 1970.
    pub not_before: i64,
    /// The last second of its life, since 1970.
    pub not_after: i64,
    /// Names of a server.
    pub names: Names,
}

impl Facts {
    /// Reads a certificate.
    pub fn of(der: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| format!("holds a damaged certificate: {error}"))?;
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
            public_key_info: certificate.public_key().raw.to_vec(),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
            key_id,
            is_authority: certificate.is_ca(),
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

    /// Whether that key is this certificate's.
    pub fn is_of(&self, key: &KeyPair) -> bool {
        self.public_key == key.der_bytes()
    }

    /// Whether its life has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.as_second() > self.not_after
    }

    /// Whether less than a third of its life is left: time for a new one.
    pub fn is_old(&self, now: Timestamp) -> bool {
        let life = self.not_after.saturating_sub(self.not_before);
        self.not_after.saturating_sub(now.as_second()) < life / 3
    }
}

/// From when to when a certificate is good, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The common name of its subject, or all of the subject where it has none.
    pub name: String,
    /// Its first second.
    pub from: Timestamp,
    /// Its last second.
    pub until: Timestamp,
    /// Whether it may sign others.
    pub is_authority: bool,
}

impl Life {
    /// When a master makes another of its own: when less than a third of this one is left.
    pub fn due(&self) -> Timestamp {
        let third = self.until.duration_since(self.from) / 3;
        self.until.checked_sub(third).unwrap_or(self.until)
    }

    /// Reads a certificate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(der: &[u8]) -> Result<Self, String> {
        let damaged = |error: &dyn std::fmt::Display| format!("holds a damaged certificate: {error}");
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| damaged(&error))?;
        let subject = certificate.subject();
        let common = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let validity = certificate.validity();
        let at = |second: i64| Timestamp::from_second(second).map_err(|error| damaged(&error));
        Ok(Self {
            name: common.map_or_else(|| subject.to_string(), str::to_owned),
            from: at(validity.not_before.timestamp())?,
            until: at(validity.not_after.timestamp())?,
            is_authority: certificate.is_ca(),
        })
    }
}
