//! Issues certificates that the cluster's signers would reject, with `openssl` and the cluster's CA key or another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::installed;

/// Configuration of `openssl ca`; subject, names and key usage come from the request.
const CONFIG: &str = "[ca]\ndefault_ca = x\n[x]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\n\
                      unique_subject = no\npolicy = p\ncopy_extensions = copy\n[p]\norganizationName = optional\n\
                      commonName = supplied\n";
/// Validity period of a valid certificate.
pub const GOOD: (&str, &str) = ("20200101000000Z", "20490101000000Z");
/// Validity period of an expired certificate.
pub const EXPIRED: (&str, &str) = ("20200101000000Z", "20210101000000Z");

/// A CA and its working directory.
pub struct Signer {
    folder: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate, followed by the CA certificate.
    pub certificate: String,
    pub key: String,
}

impl Pair {
    /// TLS settings of a server with this certificate that asks clients for none.
    pub fn server_config(&self) -> ServerConfig {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).map(Result::unwrap);
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.collect(), key)
            .unwrap()
    }
}

impl Signer {
    /// The CA of a master, read from its data directory.
    pub fn of_master(data_dir: &Path) -> Self {
        let pki = data_dir.join("pki");
        Self::new(pki.join("intermediate.crt"), pki.join("intermediate.key"))
    }

    /// Creates a CA that no component trusts.
    pub fn stranger() -> Self {
        let stranger = Self::new(PathBuf::from("own.crt"), PathBuf::from("own.key"));
        stranger.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=other -keyout own.key -out own.crt");
        stranger
    }

    fn new(certificate: PathBuf, key: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        fs::write(folder.path().join("ca.cnf"), CONFIG).unwrap();
        fs::write(folder.path().join("index.txt"), "").unwrap();
        Self { folder, certificate, key }
    }

    fn openssl(&self, words: &str) {
        let mut command = Command::new(installed("openssl", "openssl"));
        let output = command.current_dir(self.folder.path()).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    /// Issues a certificate with the given validity period.
    ///
    /// The subject is like `/O=system:nodes/CN=kubelet:a`, the extended key usage like `serverAuth`, and the
    /// alternative names like `IP:127.0.0.1`.
    pub fn signs(&self, subject: &str, usage: &str, names: &str, (from, until): (&str, &str)) -> Pair {
        self.openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out request.pem -subj {subject} \
             -addext extendedKeyUsage={usage} -addext subjectAltName={names}"
        ));
        let (certificate, key) = (self.certificate.display(), self.key.display());
        self.openssl(&format!(
            "ca -batch -notext -config ca.cnf -rand_serial -in request.pem -out signed.pem -cert {certificate} \
             -keyfile {key} -startdate {from} -enddate {until}"
        ));
        let certificate = self.read("signed.pem") + &self.read(&self.certificate);
        Pair { certificate, key: self.read("key.pem") }
    }

    /// Issues a serving certificate of a node at 127.0.0.1.
    pub fn signs_node(&self, node: &str) -> Pair {
        self.signs(&format!("/O=system:nodes/CN=kubelet:{node}"), "serverAuth", "IP:127.0.0.1", GOOD)
    }
}
