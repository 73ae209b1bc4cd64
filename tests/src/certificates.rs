//! Certificates that no signer of the cluster would give: made by `openssl` with the cluster's own key, or another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed;
use tempfile::TempDir;

/// What `openssl ca` wants to know; the names and uses are those of the request.
const CONFIG: &str = "[ca]\ndefault_ca = x\n[x]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\n\
                      unique_subject = no\npolicy = p\ncopy_extensions = copy\n[p]\norganizationName = optional\n\
                      commonName = supplied\n";
/// From when to when a certificate is good that nothing is wrong with.
pub const GOOD: (&str, &str) = ("20200101000000Z", "20490101000000Z");
/// The same of one that has expired.
pub const EXPIRED: (&str, &str) = ("20200101000000Z", "20210101000000Z");

/// An authority, and a folder to sign in.
pub struct Signer {
    folder: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate, with its authority's after it.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Signer {
    /// The authority of a master, by the files of its directory.
    pub fn of_master(data_dir: &Path) -> Self {
        let pki = data_dir.join("pki");
        Self::new(pki.join("intermediate.crt"), pki.join("intermediate.key"))
    }

    /// An authority that nobody knows.
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

    /// A certificate for a subject like `/O=system:nodes/CN=kubelet:a`, a use like `serverAuth`, and names like
    /// `IP:127.0.0.1`, good from then to then.
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

    /// The serving certificate of a node at this machine.
    pub fn signs_node(&self, node: &str) -> Pair {
        self.signs(&format!("/O=system:nodes/CN=kubelet:{node}"), "serverAuth", "IP:127.0.0.1", GOOD)
    }
}
