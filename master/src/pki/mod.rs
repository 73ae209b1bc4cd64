//! Certificates of a cluster: root and intermediate CA, the serving certificate of the API server, and client
//! certificates.
//!
//! The files of the directory, in the order of their creation, are `root.key`, `root.crt`, `intermediate.key`,
//! `intermediate.crt`, `serving.pem` and `service-account.key`. If a start is interrupted, the next start creates
//! the remaining files. Users with a CA of their own put the first four files there, without `root.key`. Damaged or
//! mismatching files are errors and are never overwritten.
//!
//! This module does not depend on the rest of the master.

mod ca;
mod der;
mod discovery_server;
mod error;
pub mod files;
mod front_proxy;
pub mod names;
pub mod node;
mod read;
pub mod request;
pub mod rotate;
pub mod signer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::tls::is_signed_by;
use jiff::Timestamp;
use rcgen::KeyPair;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};

pub use ca::BACKDATED;
use ca::{Ca, LEAF_LIFETIME, Purpose, until};
pub use discovery_server::{ca_hash, discovery_serving};
pub use error::Error;
pub use names::Names;
use read::CertificateInfo;
pub use read::Validity;
pub use request::Request;
use rotate::Retiring;
pub use signer::{Signer, Usage};

/// Prefix of the name of the root CA. A hash of the key follows, because clients treat CAs with the same name as
/// one.
const ROOT_NAME: &str = "coracle-root";
/// Prefix of the name of an intermediate CA. A hash of the key follows.
const INTERMEDIATE_NAME: &str = "coracle-intermediate";
/// Common name of the serving certificate. Clients check only the alternative names.
const SERVER_NAME: &str = "kube-apiserver";

const ROOT: &str = "root";
const INTERMEDIATE: &str = "intermediate";
const SERVING: &str = "serving.pem";
/// Name of the key that signs service account tokens. The key has no certificate.
const SERVICE_ACCOUNT: &str = "service-account";

/// Files with certificates.
pub const CERTIFICATES: [&str; 3] = ["root.crt", "intermediate.crt", SERVING];
/// Files with private keys.
pub const KEYS: [&str; 4] = ["root.key", "intermediate.key", SERVING, "service-account.key"];
/// Files that show whether the others were already generated.
const GENERATED: [&str; 3] = ["root.crt", INTERMEDIATE_CERTIFICATE, "service-account.key"];
/// The generated file that can be created again from the root CA without consequences for clients.
pub const INTERMEDIATE_CERTIFICATE: &str = "intermediate.crt";

/// The files that [`Pki::open`] and [`Pki::service_account_key`] would generate.
///
/// # Errors
/// If the directory cannot be read.
pub fn missing(directory: &Path) -> Result<Vec<&'static str>, Error> {
    let mut missing = Vec::new();
    for name in GENERATED {
        if files::read(&directory.join(name))?.is_none() {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// Lifetimes of new certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Maximum lifetime of certificates that a CSR requests.
    pub issued: Duration,
    /// Lifetime of the serving certificate of the API server.
    pub serving: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { issued: LEAF_LIFETIME, serving: LEAF_LIFETIME }
    }
}

/// The CAs of a cluster.
#[derive(Debug)]
pub struct Pki {
    lifetimes: Lifetimes,
    directory: PathBuf,
    root: CertificateDer<'static>,
    intermediate: Ca,
    /// The chain from the intermediate CA towards the root CA, which is not included.
    chain: Vec<CertificateDer<'static>>,
    /// The previous root CA, until it is retired.
    retiring: Option<Retiring>,
}

/// The certificate and key of a TLS server.
#[derive(Debug)]
pub struct Serving {
    /// The certificate and its intermediates.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// Whether this call created the certificate.
    pub is_new: bool,
}

/// A client certificate and its key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The certificate and its intermediates.
    pub certificates: String,
    /// The private key.
    pub key: String,
}

impl Pki {
    /// Reads the CAs and creates those that are missing.
    ///
    /// # Errors
    /// If a file is damaged, does not match the others, has expired, or cannot be written.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        files::private_directory(directory)?;
        rotate::complete(directory)?;
        let root = Pair::read(directory, ROOT)?;
        let intermediate = Pair::read(directory, INTERMEDIATE)?;
        let is_new_cluster = intermediate.is_empty() && files::read(&directory.join(SERVING))?.is_none();
        let root = match (root.certificates, root.key) {
            (None, None) if is_new_cluster => Root::make(directory, make_key(directory, ROOT)?, now)?,
            // The previous start was interrupted: the key has signed nothing yet.
            (None, Some(key)) if is_new_cluster => Root::make(directory, key, now)?,
            (None, _) => return Err(missing_root(directory)),
            (Some(certificates), key) => Root::check(directory, certificates, key, now)?,
        };
        let chain = match (intermediate.certificates, intermediate.key) {
            (None, None) => {
                root.check_can_sign(directory)?;
                root.sign_intermediate(directory, make_key(directory, INTERMEDIATE)?, now)?
            }
            (None, Some(key)) => root.sign_intermediate(directory, key, now)?,
            (Some(certificates), key) => (certificates, need_key(directory, key)?),
        };
        Self::check(directory, root.certificate, chain, now)
    }

    /// Reads the CAs without creating any.
    ///
    /// # Errors
    /// If one is missing, or as [`Self::open`].
    pub fn read(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        rotate::complete(directory)?;
        let [root, intermediate] = [Pair::read(directory, ROOT)?, Pair::read(directory, INTERMEDIATE)?];
        let absent = |name: &str| {
            let path = directory.join(name).with_extension("crt");
            Error::unusable(path, "is not there", "start `master run` with this --data-dir once")
        };
        let root_certificates = root.certificates.ok_or_else(|| absent(ROOT))?;
        let root = Root::check(directory, root_certificates, root.key, now)?;
        let certificates = intermediate.certificates.ok_or_else(|| absent(INTERMEDIATE))?;
        let key = need_key(directory, intermediate.key)?;
        Self::check(directory, root.certificate, (certificates, key), now)
    }

    fn check(
        directory: &Path,
        root: CertificateDer<'static>,
        (chain, key): (Vec<CertificateDer<'static>>, KeyPair),
        now: Timestamp,
    ) -> Result<Self, Error> {
        let path = directory.join(INTERMEDIATE).with_extension("crt");
        let refuse = |fault: &str| {
            let remedy = format!(
                "restore the right one, or move {INTERMEDIATE}.crt and {INTERMEDIATE}.key away, so that new ones are created with {ROOT}.key"
            );
            Error::unusable(&path, fault, remedy)
        };
        for (signed, signer) in chain.iter().zip(chain.iter().skip(1).chain([&root])) {
            let info = CertificateInfo::of(signed).map_err(|fault| refuse(&fault))?;
            if !info.is_ca {
                return Err(refuse("contains a certificate that is not a CA"));
            }
            if info.is_expired(now) {
                return Err(refuse("contains a certificate that has expired"));
            }
            if !is_signed_by(signed, signer) {
                return Err(refuse("does not lead to root.crt"));
            }
        }
        let first = chain.first().cloned().ok_or_else(|| refuse("contains no certificate"))?;
        let intermediate = Ca::new(first, key).map_err(|fault| refuse(&fault))?;
        let retiring = Retiring::read(directory, &root)?;
        Ok(Self {
            lifetimes: Lifetimes::default(),
            directory: directory.to_owned(),
            root,
            intermediate,
            chain,
            retiring,
        })
    }

    /// Sets the lifetimes of new certificates.
    #[must_use]
    pub fn with_lifetimes(self, lifetimes: Lifetimes) -> Self {
        Self { lifetimes, ..self }
    }

    /// The lifetimes of new certificates.
    pub fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    /// The serving certificate. The one on disk is used if it has these names, is not due for renewal, and does not
    /// outlive the configured lifetime. Otherwise a new one is created.
    ///
    /// # Errors
    /// If the file is damaged or cannot be written.
    pub fn serving(&self, names: &Names, now: Timestamp) -> Result<Serving, Error> {
        let path = self.directory.join(SERVING);
        let refuse = |fault: String| {
            Error::unusable(&path, fault, "move it away, and the next start creates a new one".to_owned())
        };
        if let Some(pem) = files::read(&path)? {
            let chain = read::certificates(&pem).map_err(refuse)?;
            let key = read::key(&pem).map_err(refuse)?;
            let first = chain.first().ok_or_else(|| refuse("contains no certificate".to_owned()))?;
            let info = CertificateInfo::of(first).map_err(refuse)?;
            if !info.matches_key(&key) {
                return Err(refuse("contains a key and a certificate that do not match".to_owned()));
            }
            // The chain must no longer contain the cross-signed certificate of a retired root.
            let is_ours = is_signed_by(first, self.intermediate.certificate())
                && chain.iter().skip(1).eq(self.intermediates());
            let is_now =
                info.not_before <= now.as_second() && info.not_after <= until(now, self.lifetimes.serving);
            if is_ours && info.names == *names && !info.needs_renewal(now) && is_now {
                return Ok(Serving { chain, key: private(&key), is_new: false });
            }
        }
        let key = generate(SERVER_NAME)?;
        let purpose = Purpose::Server(names.clone());
        let signed =
            self.intermediate.sign_for(SERVER_NAME, &[], &purpose, &key, self.lifetimes.serving, now)?;
        let chain = self.with_chain(signed);
        // Key and certificate share a file, so both change atomically.
        let text = key.serialize_pem() + &pem_of(&chain);
        files::write(&path, text.as_bytes(), files::SECRET)?;
        Ok(Serving { chain, key: private(&key), is_new: true })
    }

    /// Creates a key and a client certificate for a user in these groups.
    ///
    /// # Errors
    /// If a name cannot be encoded.
    pub fn client(&self, user: &str, groups: &[String], now: Timestamp) -> Result<Credentials, Error> {
        let key = generate(user)?;
        let signed = self.intermediate.sign(user, groups, &Purpose::Client, &key, now)?;
        Ok(Credentials { certificates: pem_of(&self.with_chain(signed)), key: key.serialize_pem() })
    }

    /// Issues the certificate for a CSR that a signer has accepted, in PEM with its intermediates. The requested
    /// lifetime is clamped to the allowed range.
    ///
    /// # Errors
    /// If a part of the request cannot be encoded.
    pub fn issue(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        requested_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<String, Error> {
        let life = signer::life(requested_seconds, self.lifetimes.issued);
        Ok(pem_of(&self.with_chain(self.intermediate.issue(request, usages, life, now)?)))
    }

    /// The key that signs service account tokens (PKCS #8, DER). It is created if it is missing.
    ///
    /// # Errors
    /// If the file is damaged or cannot be written.
    pub fn service_account_key(&self) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(SERVICE_ACCOUNT).with_extension("key");
        let key = match files::read(&path)? {
            None => make_key(&self.directory, SERVICE_ACCOUNT)?,
            Some(pem) => read::key(&pem).map_err(|fault| {
                let remedy = "restore it from a backup, or move it away: the next start creates a new one, and every service account token \
                              service account is void";
                Error::unusable(&path, fault, remedy)
            })?,
        };
        Ok(key.serialize_der())
    }

    /// True if the client certificate (PEM) was signed by the intermediate CA and is not due for renewal.
    pub fn is_valid_client(&self, certificates: &[u8], now: Timestamp) -> bool {
        let Ok(chain) = read::certificates(certificates) else { return false };
        chain.first().is_some_and(|first| {
            let signed = is_signed_by(first, self.intermediate.certificate());
            signed && CertificateInfo::of(first).is_ok_and(|info| !info.needs_renewal(now))
        })
    }

    /// The root certificate in PEM. Clients verify the API server with it.
    pub fn root_pem(&self) -> String {
        pem_of(std::slice::from_ref(&self.root))
    }

    /// SHA-256 of the root's SubjectPublicKeyInfo in hex. Join strings pin this hash.
    pub fn root_hash(&self) -> String {
        let info = CertificateInfo::of(&self.root).map(|info| info.spki).unwrap_or_default();
        hex::encode(Sha256::digest(info))
    }

    /// The trust bundle in PEM: the root, and the previous root until it is retired.
    pub fn trust_bundle_pem(&self) -> String {
        self.root_pem() + &self.retiring_pem()
    }

    /// The previous root in PEM; empty after it is retired.
    pub fn retiring_pem(&self) -> String {
        let old = self.retiring.as_ref().and_then(|retiring| retiring.cas.first());
        old.map(|old| pem_of(std::slice::from_ref(old))).unwrap_or_default()
    }

    /// The hash of the previous root, until it is retired. Join strings may pin it.
    pub fn retiring_hash(&self) -> Option<String> {
        let old = self.retiring.as_ref()?.cas.first()?;
        Some(hex::encode(Sha256::digest(CertificateInfo::of(old).ok()?.spki)))
    }

    /// True if both have the same CAs.
    pub fn is_same(&self, other: &Self) -> bool {
        self.client_cas() == other.client_cas()
    }

    /// The client CA bundle. It includes the intermediate CAs, for clients that do not send these with their
    /// certificate.
    pub fn client_cas(&self) -> Vec<CertificateDer<'static>> {
        let retiring = self.retiring.iter().flat_map(|retiring| &retiring.cas);
        [&self.root].into_iter().chain(&self.chain).chain(retiring).cloned().collect()
    }

    /// The intermediates for all trusted roots: the chain, and during a rotation the cross-signed certificate.
    fn intermediates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.chain.iter().chain(self.retiring.as_ref().map(|retiring| &retiring.cross_signed))
    }

    fn with_chain(&self, signed: CertificateDer<'static>) -> Vec<CertificateDer<'static>> {
        std::iter::once(signed).chain(self.intermediates().cloned()).collect()
    }
}

/// The validity periods of the certificates in a PEM file, in order.
///
/// # Errors
/// If the text has no valid certificate. The error starts with a verb, so that the caller can prepend the file name.
pub fn validities(pem: &[u8]) -> Result<Vec<Validity>, String> {
    read::certificates(pem)?.iter().map(|der| Validity::of(der)).collect()
}

/// A certificate chain and a key. Either may be missing.
struct Pair {
    certificates: Option<Vec<CertificateDer<'static>>>,
    key: Option<KeyPair>,
}

impl Pair {
    fn read(directory: &Path, name: &str) -> Result<Self, Error> {
        let path = |extension: &str| directory.join(name).with_extension(extension);
        let refuse = |extension: &str| {
            let path = path(extension);
            move |fault: String| Error::unusable(path, fault, "restore it from a backup")
        };
        let certificates = files::read(&path("crt"))?
            .map(|pem| read::certificates(&pem).map_err(refuse("crt")))
            .transpose()?;
        let key = files::read(&path("key"))?.map(|pem| read::key(&pem).map_err(refuse("key"))).transpose()?;
        if let (Some([first, ..]), Some(key)) = (certificates.as_deref(), &key)
            && !CertificateInfo::of(first).map_err(refuse("crt"))?.matches_key(key)
        {
            let fault = format!("is not the key of {name}.crt beside it");
            return Err(Error::unusable(path("key"), fault, "restore a matching pair"));
        }
        Ok(Self { certificates, key })
    }

    fn is_empty(&self) -> bool {
        self.certificates.is_none() && self.key.is_none()
    }
}

struct Root {
    certificate: CertificateDer<'static>,
    /// The root CA with its key. `None` if the user does not keep the root key here.
    authority: Option<Ca>,
}

impl Root {
    fn make(directory: &Path, key: KeyPair, now: Timestamp) -> Result<Self, Error> {
        let authority = Ca::root(&name_with_key_hash(ROOT_NAME, &key), key, now)?;
        let certificate = authority.certificate().clone();
        let text = pem_of(std::slice::from_ref(&certificate));
        files::write(&directory.join(ROOT).with_extension("crt"), text.as_bytes(), files::PUBLIC)?;
        Ok(Self { certificate, authority: Some(authority) })
    }

    fn check(
        directory: &Path,
        certificates: Vec<CertificateDer<'static>>,
        key: Option<KeyPair>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let path = directory.join(ROOT).with_extension("crt");
        let refuse = |fault: &str| {
            let remedy = "put the certificate of a root CA there, or start over with an empty --data-dir";
            Error::unusable(&path, fault, remedy)
        };
        let mut certificates = certificates.into_iter();
        let (Some(certificate), None) = (certificates.next(), certificates.next()) else {
            return Err(refuse("contains more than one certificate"));
        };
        let info = CertificateInfo::of(&certificate).map_err(|fault| refuse(&fault))?;
        if !info.is_ca {
            return Err(refuse("contains a certificate that is not a CA"));
        }
        if info.is_expired(now) {
            return Err(refuse("has expired"));
        }
        let authority = key.map(|key| Ca::new(certificate.clone(), key)).transpose();
        Ok(Self { certificate, authority: authority.map_err(|fault| refuse(&fault))? })
    }

    fn check_can_sign(&self, directory: &Path) -> Result<&Ca, Error> {
        self.authority.as_ref().ok_or_else(|| {
            let fault = "is not there, and neither are intermediate.crt and intermediate.key";
            let remedy = "put an intermediate CA that root.crt signed there, or the root's key";
            Error::unusable(directory.join(ROOT).with_extension("key"), fault, remedy)
        })
    }

    fn sign_intermediate(
        &self,
        directory: &Path,
        key: KeyPair,
        now: Timestamp,
    ) -> Result<(Vec<CertificateDer<'static>>, KeyPair), Error> {
        let root = self.check_can_sign(directory)?;
        let name = name_with_key_hash(INTERMEDIATE_NAME, &key);
        let chain = vec![root.sign(&name, &[], &Purpose::Intermediate, &key, now)?];
        let path = directory.join(INTERMEDIATE).with_extension("crt");
        files::write(&path, pem_of(&chain).as_bytes(), files::PUBLIC)?;
        Ok((chain, key))
    }
}

fn need_key(directory: &Path, key: Option<KeyPair>) -> Result<KeyPair, Error> {
    key.ok_or_else(|| {
        let path = directory.join(INTERMEDIATE).with_extension("key");
        let remedy = "restore it, or move intermediate.crt away, so that a new one is created with root.key";
        Error::unusable(path, "is not there, but intermediate.crt is", remedy)
    })
}

fn missing_root(directory: &Path) -> Error {
    let path = directory.join(ROOT).with_extension("crt");
    let remedy = "restore it, or start over with an empty --data-dir";
    Error::unusable(path, "is not there, but files that depend on it are", remedy)
}

fn generate(subject: &str) -> Result<KeyPair, Error> {
    KeyPair::generate()
        .map_err(|error| Error::Signing { subject: subject.to_owned(), fault: error.to_string() })
}

fn name_with_key_hash(begin: &str, key: &KeyPair) -> String {
    let digest = Sha256::digest(key.public_key_raw());
    format!("{begin}-{}", hex::encode(&digest[..4]))
}

fn make_key(directory: &Path, name: &str) -> Result<KeyPair, Error> {
    let key = generate(name)?;
    let path = directory.join(name).with_extension("key");
    files::write(&path, key.serialize_pem().as_bytes(), files::SECRET)?;
    Ok(key)
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialize_der()).into()
}

fn pem_of(chain: &[CertificateDer<'static>]) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut text = String::new();
    for certificate in chain {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in STANDARD.encode(certificate).as_bytes().chunks(64) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests;
