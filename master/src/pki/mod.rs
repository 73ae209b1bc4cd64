//! Certificates of a cluster: a root and an intermediate authority, the server's own, and those of people.
//!
//! Files of the directory, in the order in which they are made: `root.key`, `root.crt`, `intermediate.key`,
//! `intermediate.crt`, `serving.pem`, `service-account.key`. A kill between any two leaves something the next start completes. Whoever brings
//! authorities from outside puts the first four there, `root.key` excepted. What is damaged or does not fit is refused,
//! never overwritten. Knows nothing of the rest of the master.

mod authority;
mod der;
mod elsewhere;
mod error;
pub mod files;
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

pub use authority::BACKDATED;
use authority::{Authority, LEAF_LIFE, Purpose, until};
pub use elsewhere::{hash_of, shown_elsewhere};
pub use error::Error;
pub use names::Names;
use read::Facts;
pub use read::Life;
pub use request::Request;
use rotate::Retiring;
pub use signer::{Signer, Usage};

/// What the names of authorities begin with; the rest is of their key, because clients take authorities of one name for one.
const ROOT_NAME: &str = "coracle-root";
const INTERMEDIATE_NAME: &str = "coracle-intermediate";
/// The name of the server's own certificate; clients look at its alternative names only.
const SERVER_NAME: &str = "kube-apiserver";

const ROOT: &str = "root";
const INTERMEDIATE: &str = "intermediate";
const SERVING: &str = "serving.pem";
/// The key that signs tokens of service accounts; no certificate goes with it.
const SERVICE_ACCOUNT: &str = "service-account";

/// The files of the directory that hold certificates.
pub const CERTIFICATES: [&str; 3] = ["root.crt", "intermediate.crt", SERVING];
/// The files of the directory that hold keys.
pub const KEYS: [&str; 4] = ["root.key", "intermediate.key", SERVING, "service-account.key"];
/// What stands for all that is made together.
const MADE: [&str; 3] = ["root.crt", INTERMEDIATE_CERTIFICATE, "service-account.key"];
/// The one of them that the root makes anew without anybody having to know.
pub const INTERMEDIATE_CERTIFICATE: &str = "intermediate.crt";

/// What [`Pki::open`] and [`Pki::service_account_key`] would make in a directory, by the names of files.
///
/// # Errors
/// When nobody can look.
pub fn missing(directory: &Path) -> Result<Vec<&'static str>, Error> {
    let mut missing = Vec::new();
    for name in MADE {
        if files::read(&directory.join(name))?.is_none() {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// How long certificates live that are signed from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// Those that somebody asks for, at most.
    pub issued: Duration,
    /// The server's own.
    pub serving: Duration,
}

impl Default for Lives {
    fn default() -> Self {
        Self { issued: LEAF_LIFE, serving: LEAF_LIFE }
    }
}

/// The authorities of a cluster.
#[derive(Debug)]
pub struct Pki {
    lives: Lives,
    directory: PathBuf,
    root: CertificateDer<'static>,
    intermediate: Authority,
    /// From the intermediate towards the root, which is not in it.
    chain: Vec<CertificateDer<'static>>,
    /// The root before, as long as it is believed.
    retiring: Option<Retiring>,
}

/// What a server shows.
#[derive(Debug)]
pub struct Serving {
    /// Its certificate and the way to the root.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// Whether it was made just now.
    pub is_new: bool,
}

/// A certificate and its key for a client, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The certificate and the way to the root.
    pub certificates: String,
    /// The key.
    pub key: String,
}

impl Pki {
    /// Reads the authorities, and makes those that are not there yet.
    ///
    /// # Errors
    /// When a file is damaged, does not fit the others, is out of date, or cannot be written.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        files::private_directory(directory)?;
        rotate::complete(directory)?;
        let root = Pair::read(directory, ROOT)?;
        let intermediate = Pair::read(directory, INTERMEDIATE)?;
        let is_beginning = intermediate.is_empty() && files::read(&directory.join(SERVING))?.is_none();
        let root = match (root.certificates, root.key) {
            (None, None) if is_beginning => Root::make(directory, make_key(directory, ROOT)?, now)?,
            // Killed in between: the key has signed nothing yet.
            (None, Some(key)) if is_beginning => Root::make(directory, key, now)?,
            (None, _) => return Err(rootless(directory)),
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

    /// Reads the authorities and makes nothing.
    ///
    /// # Errors
    /// When one is not there or as [`Self::open`].
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
                "put the right one there, or move {INTERMEDIATE}.crt and {INTERMEDIATE}.key away to have new ones made by {ROOT}.key"
            );
            Error::unusable(&path, fault, remedy)
        };
        for (signed, signer) in chain.iter().zip(chain.iter().skip(1).chain([&root])) {
            let facts = Facts::of(signed).map_err(|fault| refuse(&fault))?;
            if !facts.is_authority {
                return Err(refuse("holds a certificate that may not sign others"));
            }
            if facts.is_over(now) {
                return Err(refuse("holds a certificate that has expired"));
            }
            if !is_signed_by(signed, signer) {
                return Err(refuse("does not lead to root.crt"));
            }
        }
        let first = chain.first().cloned().ok_or_else(|| refuse("holds no certificate"))?;
        let intermediate = Authority::new(first, key).map_err(|fault| refuse(&fault))?;
        let retiring = Retiring::read(directory, &root)?;
        Ok(Self {
            lives: Lives::default(),
            directory: directory.to_owned(),
            root,
            intermediate,
            chain,
            retiring,
        })
    }

    /// The same with other lives for what it signs.
    #[must_use]
    pub fn with_lives(self, lives: Lives) -> Self {
        Self { lives, ..self }
    }

    /// How long what it signs lives.
    pub fn lives(&self) -> Lives {
        self.lives
    }

    /// The server's certificate: the one on disk as long as its names are these, a third of its life is left and no more than is
    /// given now, else a new one.
    ///
    /// # Errors
    /// When the file is damaged or cannot be written.
    pub fn serving(&self, names: &Names, now: Timestamp) -> Result<Serving, Error> {
        let path = self.directory.join(SERVING);
        let refuse = |fault: String| {
            Error::unusable(&path, fault, "move it away, the next start makes a new one".to_owned())
        };
        if let Some(pem) = files::read(&path)? {
            let chain = read::certificates(&pem).map_err(refuse)?;
            let key = read::key(&pem).map_err(refuse)?;
            let first = chain.first().ok_or_else(|| refuse("holds no certificate".to_owned()))?;
            let facts = Facts::of(first).map_err(refuse)?;
            if !facts.is_of(&key) {
                return Err(refuse("holds a key and a certificate that do not belong together".to_owned()));
            }
            // Whoever believes a root that is retired is not to be led to it any more.
            let is_ours =
                is_signed_by(first, self.intermediate.certificate()) && chain.iter().skip(1).eq(self.way());
            let is_now =
                facts.not_before <= now.as_second() && facts.not_after <= until(now, self.lives.serving);
            if is_ours && facts.names == *names && !facts.is_old(now) && is_now {
                return Ok(Serving { chain, key: private(&key), is_new: false });
            }
        }
        let key = generate(SERVER_NAME)?;
        let purpose = Purpose::Server(names.clone());
        let signed = self.intermediate.sign_for(SERVER_NAME, &[], &purpose, &key, self.lives.serving, now)?;
        let chain = self.lead(signed);
        // Key and certificate in one file change in one step.
        let text = key.serialize_pem() + &pem_of(&chain);
        files::write(&path, text.as_bytes(), files::SECRET)?;
        Ok(Serving { chain, key: private(&key), is_new: true })
    }

    /// A new key and certificate for a user in these groups, all of which the certificate keeps.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn client(&self, user: &str, groups: &[String], now: Timestamp) -> Result<Credentials, Error> {
        let key = generate(user)?;
        let signed = self.intermediate.sign(user, groups, &Purpose::Client, &key, now)?;
        Ok(Credentials { certificates: pem_of(&self.lead(signed)), key: key.serialize_pem() })
    }

    /// The certificate that a request asks for and the way to the root, PEM, once its signer has agreed to it. It lives for so
    /// many seconds, where they are asked for, within bounds.
    ///
    /// # Errors
    /// When something of the request cannot stand in a certificate.
    pub fn issue(
        &self,
        request: &Request,
        usages: &BTreeSet<Usage>,
        asked_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<String, Error> {
        let life = signer::life(asked_seconds, self.lives.issued);
        Ok(pem_of(&self.lead(self.intermediate.issue(request, usages, life, now)?)))
    }

    /// The key that signs tokens of service accounts (PKCS #8, DER); made where there is none.
    ///
    /// # Errors
    /// When the file is damaged or cannot be written.
    pub fn service_account_key(&self) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(SERVICE_ACCOUNT).with_extension("key");
        let key = match files::read(&path)? {
            None => make_key(&self.directory, SERVICE_ACCOUNT)?,
            Some(pem) => read::key(&pem).map_err(|fault| {
                let remedy = "restore it from a backup, or move it away: the next start makes a new one, and every token of a \
                              service account is void";
                Error::unusable(&path, fault, remedy)
            })?,
        };
        Ok(key.serialize_der())
    }

    /// Whether a client's certificate (PEM) is of this cluster and lives for a while yet.
    pub fn is_good_client(&self, certificates: &[u8], now: Timestamp) -> bool {
        let Ok(chain) = read::certificates(certificates) else { return false };
        chain.first().is_some_and(|first| {
            let signed = is_signed_by(first, self.intermediate.certificate());
            signed && Facts::of(first).is_ok_and(|facts| !facts.is_old(now))
        })
    }

    /// The root certificate as PEM: all that a client needs to know us.
    pub fn root_pem(&self) -> String {
        pem_of(std::slice::from_ref(&self.root))
    }

    /// SHA-256 of the root's SubjectPublicKeyInfo, in hex: what a join string pins.
    pub fn root_hash(&self) -> String {
        let info = Facts::of(&self.root).map(|facts| facts.public_key_info).unwrap_or_default();
        hex::encode(Sha256::digest(info))
    }

    /// The same and the root that is not retired yet, where there is one: what clients that hold certificates are told.
    pub fn trusted_pem(&self) -> String {
        self.root_pem() + &self.retiring_pem()
    }

    /// The root that is not retired yet, as PEM; empty where there is none.
    pub fn retiring_pem(&self) -> String {
        let old = self.retiring.as_ref().and_then(|retiring| retiring.authorities.first());
        old.map(|old| pem_of(std::slice::from_ref(old))).unwrap_or_default()
    }

    /// What join strings pinned before, where that root is not retired yet.
    pub fn retiring_hash(&self) -> Option<String> {
        let old = self.retiring.as_ref()?.authorities.first()?;
        Some(hex::encode(Sha256::digest(Facts::of(old).ok()?.public_key_info)))
    }

    /// Whether those are the same authorities.
    pub fn is_same(&self, other: &Self) -> bool {
        self.client_authorities() == other.client_authorities()
    }

    /// Who may have signed a client's certificate. The intermediate is among them for clients that show theirs alone.
    pub fn client_authorities(&self) -> Vec<CertificateDer<'static>> {
        let retiring = self.retiring.iter().flat_map(|retiring| &retiring.authorities);
        [&self.root].into_iter().chain(&self.chain).chain(retiring).cloned().collect()
    }

    /// From the intermediate to every root that is believed.
    fn way(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.chain.iter().chain(self.retiring.as_ref().map(|retiring| &retiring.bridge))
    }

    fn lead(&self, signed: CertificateDer<'static>) -> Vec<CertificateDer<'static>> {
        std::iter::once(signed).chain(self.way().cloned()).collect()
    }
}

/// When the certificates of a PEM file begin and end, in order.
///
/// # Errors
/// What is wrong with the file, as the end of a sentence that begins with it.
pub fn lives(pem: &[u8]) -> Result<Vec<Life>, String> {
    read::certificates(pem)?.iter().map(|der| Life::of(der)).collect()
}

/// A certificate (or a chain) and a key, either of which may not be there.
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
            && !Facts::of(first).map_err(refuse("crt"))?.is_of(key)
        {
            let fault = format!("is not the key of {name}.crt beside it");
            return Err(Error::unusable(path("key"), fault, "put the two that belong together there"));
        }
        Ok(Self { certificates, key })
    }

    fn is_empty(&self) -> bool {
        self.certificates.is_none() && self.key.is_none()
    }
}

struct Root {
    certificate: CertificateDer<'static>,
    /// Absent when whoever brought it keeps the key elsewhere.
    authority: Option<Authority>,
}

impl Root {
    fn make(directory: &Path, key: KeyPair, now: Timestamp) -> Result<Self, Error> {
        let authority = Authority::root(&own_name(ROOT_NAME, &key), key, now)?;
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
            let remedy =
                "put the certificate of a root authority there, or begin anew with an empty --data-dir";
            Error::unusable(&path, fault, remedy)
        };
        let mut certificates = certificates.into_iter();
        let (Some(certificate), None) = (certificates.next(), certificates.next()) else {
            return Err(refuse("holds more than one certificate"));
        };
        let facts = Facts::of(&certificate).map_err(|fault| refuse(&fault))?;
        if !facts.is_authority {
            return Err(refuse("holds a certificate that may not sign others"));
        }
        if facts.is_over(now) {
            return Err(refuse("has expired"));
        }
        let authority = key.map(|key| Authority::new(certificate.clone(), key)).transpose();
        Ok(Self { certificate, authority: authority.map_err(|fault| refuse(&fault))? })
    }

    fn check_can_sign(&self, directory: &Path) -> Result<&Authority, Error> {
        self.authority.as_ref().ok_or_else(|| {
            let fault = "is not there, and neither are intermediate.crt and intermediate.key";
            let remedy = "put an intermediate authority that root.crt signed there, or the root's key";
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
        let name = own_name(INTERMEDIATE_NAME, &key);
        let chain = vec![root.sign(&name, &[], &Purpose::Intermediate, &key, now)?];
        let path = directory.join(INTERMEDIATE).with_extension("crt");
        files::write(&path, pem_of(&chain).as_bytes(), files::PUBLIC)?;
        Ok((chain, key))
    }
}

fn need_key(directory: &Path, key: Option<KeyPair>) -> Result<KeyPair, Error> {
    key.ok_or_else(|| {
        let path = directory.join(INTERMEDIATE).with_extension("key");
        let remedy = "put it back, or move intermediate.crt away to have a new one made by root.key";
        Error::unusable(path, "is not there, but intermediate.crt is", remedy)
    })
}

fn rootless(directory: &Path) -> Error {
    let path = directory.join(ROOT).with_extension("crt");
    let remedy = "put it back, or begin anew with an empty --data-dir";
    Error::unusable(path, "is not there, but files that depend on it are", remedy)
}

fn generate(subject: &str) -> Result<KeyPair, Error> {
    KeyPair::generate()
        .map_err(|error| Error::Signing { subject: subject.to_owned(), fault: error.to_string() })
}

fn own_name(begin: &str, key: &KeyPair) -> String {
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
