//! Parses certificate signing requests (CSRs). Pure.

use std::net::IpAddr;

use rcgen::{PublicKeyData, SignatureAlgorithm};
use sha2::{Digest as _, Sha256};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::names::{self, Names};

/// The PEM label of a CSR.
const LABEL: &str = "CERTIFICATE REQUEST";
/// Maximum number of alternative names. A server has a few names and one address per interface.
const MAX_NAMES: usize = 256;
/// OIDs of SHA-1 signatures, which are insecure.
const SHA1_ALGORITHMS: [&str; 2] = ["1.2.840.113549.1.1.5", "1.3.14.3.2.29"];

/// A CSR with a verified signature.
#[derive(Clone, Debug)]
pub struct Request {
    /// Common name (CN); empty if there is none.
    pub common_name: String,
    /// Organizations (O), in order.
    pub organizations: Vec<String>,
    /// DNS and IP alternative names.
    pub names: Names,
    /// Email alternative names.
    pub emails: Vec<String>,
    /// URI alternative names.
    pub uris: Vec<String>,
    /// The whole subject in DER.
    pub(super) subject: Vec<u8>,
    pub(super) key: PublicKey,
    /// SubjectPublicKeyInfo in DER.
    pub(super) spki: Vec<u8>,
}

/// The public key of the requester.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    algorithm: &'static SignatureAlgorithm,
    bytes: Vec<u8>,
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl Request {
    /// Parses a CSR (PEM).
    ///
    /// # Errors
    /// If no certificate can be issued for the request. The error is the reason.
    pub fn read(pem: &[u8]) -> Result<Self, String> {
        let (_, block) = parse_x509_pem(pem).map_err(|error| format!("it is not PEM: {error}"))?;
        if block.label != LABEL {
            return Err(format!("PEM block type must be {LABEL}"));
        }
        let (rest, request) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        if !rest.is_empty() {
            return Err("it has trailing data".to_owned());
        }
        let is_weak =
            SHA1_ALGORITHMS.contains(&request.signature_algorithm.algorithm.to_id_string().as_str());
        if is_weak || request.verify_signature().is_err() {
            return Err("its signature does not match its key or is too weak: sign it with RSA of at least 2048 bits, \
                        ECDSA on P-256 or P-384, or Ed25519, with SHA-256 or better"
                .to_owned());
        }
        let info = &request.certification_request_info;
        let unreadable = |_| "its subject is not valid text".to_owned();
        let mut common: Vec<&str> = Vec::new();
        for name in info.subject.iter_common_name() {
            common.push(name.as_str().map_err(unreadable)?);
        }
        // Which of several common names counts differs between servers.
        let common_name = match common.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            _ => return Err("its subject has more than one common name".to_owned()),
        };
        let organizations = info.subject.iter_organization();
        let organizations = organizations.map(|group| group.as_str().map(str::to_owned).map_err(unreadable));
        let mut read = Self {
            common_name,
            organizations: organizations.collect::<Result<_, _>>()?,
            names: Names::default(),
            emails: Vec::new(),
            uris: Vec::new(),
            subject: info.subject.as_raw().to_vec(),
            key: key(&info.subject_pki)?,
            spki: info.subject_pki.raw.to_vec(),
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(alternative) = extension {
                if alternative.general_names.len() > MAX_NAMES {
                    return Err(format!("it requests more than {MAX_NAMES} alternative names"));
                }
                alternative.general_names.iter().try_for_each(|name| read.add(name))?;
            }
        }
        Ok(read)
    }

    /// SHA-256 of the SubjectPublicKeyInfo, in hex.
    pub fn key_hash(&self) -> String {
        hex::encode(Sha256::digest(&self.spki))
    }

    fn add(&mut self, name: &GeneralName<'_>) -> Result<(), String> {
        match name {
            GeneralName::DNSName(name) if names::is_dns_name(name) => {
                self.names.dns.insert((*name).to_owned());
            }
            GeneralName::DNSName(name) => return Err(format!("{name:?} is not a DNS name")),
            GeneralName::IPAddress(bytes) => {
                self.names.addresses.insert(address(bytes).ok_or("it requests an invalid IP address")?);
            }
            GeneralName::RFC822Name(name) => self.emails.push((*name).to_owned()),
            GeneralName::URI(name) => self.uris.push((*name).to_owned()),
            _ => {
                return Err("it requests an alternative name that is not DNS, IP, email or URI".to_owned());
            }
        }
        Ok(())
    }
}

/// The public key, if its algorithm is supported.
fn key(info: &SubjectPublicKeyInfo<'_>) -> Result<PublicKey, String> {
    let kind = info.algorithm.algorithm.to_id_string();
    let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    let curve = curve.map(|curve| curve.to_id_string()).unwrap_or_default();
    let algorithm = match (kind.as_str(), curve.as_str()) {
        ("1.2.840.113549.1.1.1", _) => &rcgen::PKCS_RSA_SHA256,
        ("1.2.840.10045.2.1", "1.2.840.10045.3.1.7") => &rcgen::PKCS_ECDSA_P256_SHA256,
        ("1.2.840.10045.2.1", "1.3.132.0.34") => &rcgen::PKCS_ECDSA_P384_SHA384,
        ("1.3.101.112", _) => &rcgen::PKCS_ED25519,
        _ => return Err("its key type is not supported".to_owned()),
    };
    Ok(PublicKey { algorithm, bytes: info.subject_public_key.data.to_vec() })
}

pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
