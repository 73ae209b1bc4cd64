//! A certificate with its key, and the few facts about it that decide anything. Pure.

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

/// Most certificates of a file: a chain is two or three, a bundle of authorities a few more.
const MOST_CERTIFICATES: usize = 16;
/// Letters of a line of PEM.
const LINE: usize = 64;

/// A certificate and its key, ready to be shown.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The chain and the key.
    pub certified: Arc<CertifiedKey>,
    /// What it says.
    pub facts: Facts,
    /// Since when this node has it.
    pub since: Timestamp,
}

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its common name.
    pub common_name: String,
    /// Its first second, since 1970.
    pub from: i64,
    /// Its last second, since 1970.
    pub until: i64,
    /// DNS names of a server.
    pub dns: BTreeSet<String>,
    /// Addresses of a server.
    pub addresses: BTreeSet<IpAddr>,
    /// Public key with its algorithm, DER.
    pub key_info: Vec<u8>,
}

impl Certificate {
    /// Reads the text of a file that holds both.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the file.
    pub fn read(pem: &[u8], since: Timestamp) -> Result<Self, String> {
        Self::of(pem, pem, since)
    }

    /// Of a chain and a key, both PEM.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(chain: &[u8], key: &[u8], since: Timestamp) -> Result<Self, String> {
        let chain = certificates(chain)?;
        let facts = chain.first().map(|first| Facts::of(first)).transpose()?.unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "holds no private key".to_owned())?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| format!("holds a certificate and a key that do not go together: {error}"))?;
        Ok(Self { certified: Arc::new(certified), facts, since })
    }

    /// Whether its life has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.as_second() >= self.facts.until
    }
}

impl Facts {
    fn of(der: &[u8]) -> Result<Self, String> {
        let damaged = |error: &dyn std::fmt::Display| format!("holds a damaged certificate: {error}");
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| damaged(&error))?;
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
        let names = certificate.subject_alternative_name().map_err(|error| damaged(&error))?;
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

/// Every certificate of a PEM text, of which there is at least one.
///
/// # Errors
/// What is wrong, as the end of a sentence that begins with the text.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(MOST_CERTIFICATES + 1).collect();
    let all = all.map_err(|error| format!("is damaged: {error}"))?;
    match all.len() {
        0 => Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned()),
        1..=MOST_CERTIFICATES => Ok(all),
        _ => Err(format!("holds more than {MOST_CERTIFICATES} certificates")),
    }
}

/// Certificates as PEM.
pub fn pem(all: &[CertificateDer<'_>]) -> String {
    let block = |der: &CertificateDer<'_>| {
        let text = STANDARD.encode(der);
        let lines: String =
            text.as_bytes().chunks(LINE).map(|line| format!("{}\n", line.escape_ascii())).collect();
        format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
    };
    all.iter().map(block).collect()
}

/// The SHA-256 of a certificate's public key (SubjectPublicKeyInfo), in hex: what join strings pin.
///
/// # Errors
/// When it does not read.
pub fn hash(der: &[u8]) -> Result<String, String> {
    Facts::of(der).map(|facts| hex::encode(Sha256::digest(facts.key_info)))
}
