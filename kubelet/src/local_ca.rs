//! The CA of this node. It signs client certificates for the owner of the machine, and the serving certificate while
//! the node has no other. It is in two files of `<root-dir>/pki`.

mod viewer_token;

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use jiff::{Span, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

pub use viewer_token::ViewerTokens;

/// Common name of the CA.
const NAME: &str = "clients of this node";
/// Validity of the CA. If an administrator removes its two files, the next command creates a new CA.
const YEARS: i64 = 10;

/// A reason why the CA cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {verb} {path}")]
    File {
        /// `read`, `write` or `create`.
        verb: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Certificate and key are not those of one CA.
    #[error("{fault}; remove {certificate} and {key}, and run this command again")]
    Damaged {
        /// The reason, for example that a file contains no key.
        fault: &'static str,
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// A certificate cannot be signed.
    #[error("cannot sign a certificate: {0}")]
    Sign(#[from] rcgen::Error),
    /// The validity period ends after the year 9999.
    #[error("the certificate would be valid for too long: {0}")]
    Validity(#[from] jiff::Error),
}

/// The paths of the CA's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The certificate, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM with mode 0600.
    pub key: PathBuf,
}

impl Files {
    /// The files of the kubelet with this root directory.
    pub fn of(root_dir: &Path) -> Self {
        let directory = root_dir.join("pki");
        Self {
            certificate: directory.join("local-client-ca.crt"),
            key: directory.join("local-client-ca.key"),
        }
    }
}

/// A signed certificate with its private key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// The private key, in PKCS #8.
    pub key: String,
}

/// The CA with its key.
#[derive(Debug)]
pub struct LocalCa {
    key: KeyPair,
}

impl LocalCa {
    /// Uses the certificate and the private key in two PEM files.
    ///
    /// # Errors
    /// If a file cannot be parsed, or the certificate is that of another key. The error says what is wrong.
    pub fn from_pem(certificate: &[u8], key: &str) -> Result<Self, &'static str> {
        let key = KeyPair::from_pem(key).map_err(|_| "the key file contains no private key")?;
        let certificate = CertificateDer::from_pem_slice(certificate)
            .map_err(|_| "the certificate file contains no certificate")?;
        let (_, certificate) = X509Certificate::from_der(&certificate)
            .map_err(|_| "the certificate file contains no certificate")?;
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err("the certificate file and the key file belong to different CAs");
        }
        Ok(Self { key })
    }

    /// Opens the CA, and creates it if it does not exist. The certificate is written last, so that the kubelet never
    /// trusts a CA whose key is lost.
    ///
    /// # Errors
    /// If a file cannot be read or written, or the files are not those of one CA.
    pub fn open_or_create(files: &Files, today: Date) -> Result<Self, Error> {
        if let Some(directory) = files.key.parent() {
            let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            created.map_err(|source| Error::File { verb: "create", path: directory.to_owned(), source })?;
        }
        let damaged =
            |fault| Error::Damaged { fault, certificate: files.certificate.clone(), key: files.key.clone() };
        let key = match read_if_exists(&files.key)? {
            Some(pem) => pem,
            None if files.certificate.exists() => return Err(damaged("the key file is missing")),
            None => {
                let key = KeyPair::generate()?.serialize_pem();
                write_new(&files.key, &key, 0o600)?;
                key
            }
        };
        if !files.certificate.exists() {
            let key = KeyPair::from_pem(&key).map_err(|_| damaged("the key file contains no private key"))?;
            let mut params = params();
            set_validity(&mut params, today, YEARS.years())?;
            write_new(&files.certificate, &params.self_signed(&key)?.pem(), 0o644)?;
        }
        let certificate = read_if_exists(&files.certificate)?.unwrap_or_default();
        Self::from_pem(certificate.as_bytes(), &key).map_err(damaged)
    }

    /// Signs a client certificate of the user `name` in `group`. It is valid for `days` days from `today`, and one day
    /// before, to tolerate clock skew.
    ///
    /// # Errors
    /// If the certificate cannot be signed, or would be valid for too long.
    pub fn sign_client(&self, name: &str, group: &str, today: Date, days: u16) -> Result<Signed, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params, today, i64::from(days).days())?;
        self.sign(params)
    }

    /// Signs a serving certificate for a node. It does not expire before the CA.
    ///
    /// # Errors
    /// If a name is not ASCII, or the certificate cannot be signed.
    pub fn sign_serving(&self, node: &str, addresses: &[IpAddr]) -> Result<Signed, Error> {
        self.sign(serving_params(node, addresses)?)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Signed, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &Issuer::new(self::params(), &self.key))?;
        Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The subject and the names of a serving certificate: the node, its addresses, and the loopback names.
///
/// # Errors
/// If a name is not ASCII.
pub fn serving_params(node: &str, addresses: &[IpAddr]) -> Result<CertificateParams, rcgen::Error> {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let addresses = addresses.iter().map(IpAddr::to_string).filter(|address| !loopback.contains(address));
    let names = [node.to_owned()].into_iter().chain(addresses).chain(loopback.clone());
    let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, node);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

/// The CA without its validity. An issuer needs no more.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Sets the validity from the day before `today` for `length`, at midnight in UTC.
fn set_validity(params: &mut CertificateParams, today: Date, length: Span) -> Result<(), Error> {
    let midnight = |day: Date| {
        rcgen::date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    params.not_before = midnight(today.checked_sub(1.day())?);
    params.not_after = midnight(today.checked_add(length)?);
    Ok(())
}

fn read_if_exists(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|source| Error::File { verb: "read", path: path.to_owned(), source }),
    }
}

/// Creates a file. Either the whole file appears, or none.
///
/// # Errors
/// If the file exists, so that no key is overwritten, or cannot be written.
pub fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let write = || {
        let builder = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).to_owned();
        let mut file = builder.tempfile_in(directory.unwrap_or(Path::new(".")))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)
    };
    write().map(|_| ()).map_err(|source| Error::File { verb: "write", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    //! Tests of the CA, and of the certificates that it signs.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::tz::TimeZone;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::server::WebPkiClientVerifier;

    use super::*;

    const TODAY: Date = Date::constant(2026, 2, 28);

    fn noon() -> UnixTime {
        let noon = TODAY.at(12, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap();
        UnixTime::since_unix_epoch(Duration::from_secs(noon.timestamp().as_second().unsigned_abs()))
    }

    fn roots(files: &Files) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&files.certificate).unwrap()).unwrap();
        Arc::new(roots)
    }

    #[test]
    fn client_certificates_have_one_ca_and_their_group() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::of(&folder.path().join("state"));
        for name in ["prometheus", "other"] {
            let ca = LocalCa::open_or_create(&files, TODAY).unwrap();
            assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
            let signed = ca.sign_client(name, "system:monitoring", TODAY, 2).unwrap();
            let der = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
            let (_, certificate) = X509Certificate::from_der(&der).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(&files), provider).build().unwrap();
            verifier.verify_client_cert(&der, &[], noon()).unwrap();
            assert_eq!(certificate.subject().to_string(), format!("O=system:monitoring, CN={name}"));
            let validity = certificate.validity();
            let days = (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400;
            assert_eq!(days, 3);
        }
        let key = fs::read(&files.key).unwrap();
        fs::remove_file(&files.key).unwrap();
        let error = LocalCa::open_or_create(&files, TODAY).unwrap_err().to_string();
        assert!(error.contains("the key file is missing; remove") && !files.key.exists(), "{error}");
        fs::write(&files.key, key).unwrap();
        let pem = fs::read_to_string(&files.certificate).unwrap();
        let other = KeyPair::generate().unwrap().serialize_pem();
        for (certificate, key, expected) in [
            (&*pem, &*other, "belong to different CAs; remove"),
            (&pem, "junk", "the key file contains no private key; remove"),
            ("", &other, "the certificate file contains no certificate; remove"),
        ] {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
            let error = LocalCa::open_or_create(&files, TODAY).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("local-client-ca.key"), "{error}");
        }
    }

    #[test]
    fn serving_certificates_name_the_node_its_addresses_and_localhost() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::of(folder.path());
        let ca = LocalCa::open_or_create(&files, TODAY).unwrap();
        let signed = ca.sign_serving("n1", &["192.0.2.7".parse().unwrap()]).unwrap();
        let der = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(&files), provider).build().unwrap();
        let verify = |name: &str| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(&der, &[], &name, &[], noon()).is_ok()
        };
        for name in ["n1", "192.0.2.7", "localhost", "127.0.0.1", "::1"] {
            assert!(verify(name), "{name}");
        }
        assert!(!verify("n2") && !verify("192.0.2.8"));
    }

    #[test]
    fn no_file_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_new(&path, "1", 0o600).unwrap();
        let Error::File { source, .. } = write_new(&path, "2", 0o600).unwrap_err() else { panic!() };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    }
}
