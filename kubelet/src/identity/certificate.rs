//! A certificate with its key, and the fields of it that the kubelet uses. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Maximum number of certificates per file. A chain has two or three, a CA bundle some more.
const MAX_CERTIFICATES: usize = 16;
/// Characters per line of PEM.
const LINE: usize = 64;

/// A certificate chain and its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The chain and the key, for rustls.
    pub certified: Arc<CertifiedKey>,
    /// The fields of the first certificate.
    pub facts: Facts,
    /// When this node received the certificate.
    pub since: Timestamp,
}

/// The fields of a certificate that the kubelet uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The common name of the subject.
    pub common_name: String,
    /// The field `notBefore`, in seconds since 1970.
    pub from: i64,
    /// The field `notAfter`, in seconds since 1970.
    pub until: i64,
    /// DNS names among the subject alternative names.
    pub dns: BTreeSet<String>,
    /// IP addresses among the subject alternative names.
    pub addresses: BTreeSet<IpAddr>,
    /// The SubjectPublicKeyInfo in DER.
    pub key_info: Vec<u8>,
}

impl Certificate {
    /// Parses a PEM text with both the chain and the key.
    ///
    /// # Errors
    /// If the text is invalid. The error starts with a verb, so that the caller can prepend the file name.
    pub fn read(pem: &[u8], since: Timestamp) -> Result<Self, String> {
        Self::of(pem, pem, since)
    }

    /// Parses a chain and a key, both PEM.
    ///
    /// # Errors
    /// The same as [`Self::read`].
    pub fn of(chain: &[u8], key: &[u8], since: Timestamp) -> Result<Self, String> {
        let chain = certificates(chain)?;
        let facts = chain.first().map(|first| Facts::of(first)).transpose()?.unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "contains no private key".to_owned())?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| format!("contains a certificate and a key that do not match: {error}"))?;
        Ok(Self { certified: Arc::new(certified), facts, since })
    }

    /// Whether the certificate has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.as_second() >= self.facts.until
    }
}

impl Facts {
    fn of(der: &[u8]) -> Result<Self, String> {
        let invalid = |error: &dyn std::fmt::Display| format!("contains a damaged certificate: {error}");
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| invalid(&error))?;
        let mut facts = Self {
            common_name: certificate
                .subject()
                .iter_common_name()
                .next()
                .and_then(|name| name.as_str().ok())
                .unwrap_or_default()
                .to_owned(),
            from: certificate.validity().not_before.timestamp(),
            until: certificate.validity().not_after.timestamp(),
            key_info: certificate.public_key().raw.to_vec(),
            ..Self::default()
        };
        let names = certificate.subject_alternative_name().map_err(|error| invalid(&error))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => drop(facts.dns.insert((*name).to_owned())),
                GeneralName::IPAddress(bytes) => facts.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(facts)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Parses all certificates of a PEM text, which has at least one.
///
/// # Errors
/// If the text is invalid. The error starts with a verb, so that the caller can prepend the source of the text.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES + 1).collect();
    let all = all.map_err(|error| format!("is damaged: {error}"))?;
    match all.len() {
        0 => Err("contains no certificate (-----BEGIN CERTIFICATE-----)".to_owned()),
        1..=MAX_CERTIFICATES => Ok(all),
        _ => Err(format!("contains more than {MAX_CERTIFICATES} certificates")),
    }
}

/// Encodes certificates as PEM.
pub fn pem(all: &[CertificateDer<'_>]) -> String {
    let block = |der: &CertificateDer<'_>| {
        let text = STANDARD.encode(der);
        let lines: String =
            text.as_bytes().chunks(LINE).map(|line| format!("{}\n", line.escape_ascii())).collect();
        format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
    };
    all.iter().map(block).collect()
}

/// The SHA-256 of a certificate's SubjectPublicKeyInfo, in hex. Join strings pin this hash.
///
/// # Errors
/// If the certificate cannot be parsed.
pub fn hash(der: &[u8]) -> Result<String, String> {
    Facts::of(der).map(|facts| hex::encode(Sha256::digest(facts.key_info)))
}
