//! What a node shows to whoever asks over HTTPS, and whose clients it believes: files, which are taken up when they change.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::tls::{self, Keys};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

/// How often files are read again that others put there: soon enough for certificates that live for a minute, and three small
/// files are nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The same where this node keeps all of them and says when it has written one: for people who help out by hand.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// Longest file that is read: a chain of certificates is a few KiB.
const LONGEST_BYTES: u64 = 1 << 20;

/// Where certificates lie.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The certificate with those that lead to its authority, and its key, where somebody named them.
    pub given: Option<(PathBuf, PathBuf)>,
    /// Both in one file, which the cluster signed and which is renewed; it may not be there, or not yet.
    pub current: PathBuf,
    /// Who signs the certificates of clients, where somebody named them.
    pub client_authorities: Option<PathBuf>,
    /// The authorities of the node's cluster, which count otherwise; without them nobody may ask anything.
    pub cluster_authorities: PathBuf,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refuses.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} {fault}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The end of a sentence that begins with the file.
        fault: String,
    },
    /// A certificate of one's own cannot be made.
    #[error("cannot make a certificate for this node: {0}")]
    Own(rcgen::Error),
    /// They do not fit together.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// What is shown while there is no other: a certificate that the key signs for itself.
#[derive(Debug)]
struct Own {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// What the files held; of those that are not there nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    certificates: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
}

/// The certificates in use.
#[derive(Debug)]
pub struct Serving {
    files: Files,
    own: Own,
    found: Found,
}

impl Serving {
    /// Reads the files for a node of that name and those addresses, and what is served with them.
    ///
    /// # Errors
    /// When a file that somebody named cannot be used.
    pub async fn open(
        files: Files,
        node: &str,
        addresses: &[IpAddr],
    ) -> Result<(Self, Arc<tls::Config>), Error> {
        let own = Own::new(node, addresses)?;
        let mut found = files.read().await?;
        let config = match found.config(&files, &own) {
            // What nobody named is renewed by others: there will be a better one.
            Err(error) if files.given.is_none() || files.client_authorities.is_none() => {
                tracing::error!(%error, "going on without the files of the node's API that nobody named");
                if files.given.is_none() {
                    (found.certificates, found.key) = Default::default();
                }
                if files.client_authorities.is_none() {
                    found.authorities = Vec::new();
                }
                found.config(&files, &own)?
            }
            other => other?,
        };
        Ok((Self { files, own, found }, config))
    }

    /// Takes up what changes for as long as anybody is served; connections that are open go on, but for
    /// those of masters that are not believed any more. `written` changes when this node has written one of the files that nobody
    /// named; without it they are somebody else's.
    pub async fn follow(
        mut self,
        swap: watch::Sender<Arc<tls::Config>>,
        mut written: Option<watch::Receiver<()>>,
    ) {
        let mut told = String::new();
        loop {
            let is_named = self.files.given.is_some() || self.files.client_authorities.is_some();
            let pause = if written.is_none() || is_named { LOOK_AGAIN } else { LOOK_ANYWAY };
            let is_written = async {
                match &mut written {
                    Some(written) => written.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Where nobody writes any more, time goes on.
                heard = is_written => if heard.is_err() { written = None },
                () = swap.closed() => return,
            }
            match self.changed().await {
                Ok(None) => {}
                Ok(Some(config)) => {
                    swap.send_replace(config);
                    told.clear();
                    tracing::info!("the certificates of the node's API were read anew");
                }
                Err(error) => {
                    // Once a mistake, not once a look.
                    let error = error.to_string();
                    if told != error {
                        tracing::error!(error, "going on with the certificates that were read before");
                        told = error;
                    }
                }
            }
        }
    }

    /// What is served from now on, if that is something else than before.
    async fn changed(&mut self) -> Result<Option<Arc<tls::Config>>, Error> {
        let found = self.files.read().await?;
        if found == self.found {
            return Ok(None);
        }
        let config = found.config(&self.files, &self.own)?;
        self.found = found;
        Ok(Some(config))
    }
}

impl Files {
    async fn read(&self) -> Result<Found, Error> {
        let (certificates, key) = match &self.given {
            Some((certificates, key)) => (read(certificates).await?, read(key).await?),
            None => {
                let both = read_if_there(&self.current).await?;
                (both.clone(), both)
            }
        };
        let authorities = match &self.client_authorities {
            Some(path) => read(path).await?,
            None => read_if_there(&self.cluster_authorities).await?,
        };
        Ok(Found { certificates, key, authorities })
    }

    /// The files of the certificate and of its key.
    fn names(&self) -> (&Path, &Path) {
        self.given.as_ref().map_or((&self.current, &self.current), |(certificates, key)| (certificates, key))
    }
}

impl Found {
    fn config(&self, files: &Files, own: &Own) -> Result<Arc<tls::Config>, Error> {
        let named = files.client_authorities.as_ref();
        let client_authorities = if named.is_none() && self.authorities.is_empty() {
            Vec::new()
        } else {
            certificates(named.unwrap_or(&files.cluster_authorities), &self.authorities)?
        };
        let (chain, key) = if self.certificates.is_empty() {
            (vec![own.certificate.clone()], PrivatePkcs8KeyDer::from(own.key.clone()).into())
        } else {
            let (path, key_path) = files.names();
            let unusable = |error: rustls::pki_types::pem::Error| {
                let fault = format!("holds no key that can be read (-----BEGIN PRIVATE KEY-----): {error}");
                Error::Unusable { path: key_path.to_owned(), fault }
            };
            let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(unusable)?;
            (certificates(path, &self.certificates)?, key)
        };
        Ok(tls::config(Keys { chain, key, client_authorities })?)
    }
}

impl Own {
    fn new(node: &str, addresses: &[IpAddr]) -> Result<Self, Error> {
        let names: Vec<String> =
            [node.to_owned()].into_iter().chain(addresses.iter().map(IpAddr::to_string)).collect();
        let key = KeyPair::generate().map_err(Error::Own)?;
        let mut params = CertificateParams::new(names).map_err(Error::Own)?;
        params.distinguished_name.push(DnType::CommonName, node);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).map_err(Error::Own)?;
        Ok(Self { certificate: certificate.der().clone(), key: key.serialize_der() })
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = |fault: String| Error::Unusable { path: path.to_owned(), fault };
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(format!("is damaged: {error}")))?;
    if all.is_empty() {
        return Err(unusable("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(all)
}

async fn read_if_there(path: &Path) -> Result<Vec<u8>, Error> {
    match read(path).await {
        Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LONGEST_BYTES).read_to_end(&mut bytes).await.map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
