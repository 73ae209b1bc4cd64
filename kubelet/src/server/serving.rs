//! Serving certificate and client CA bundle of the node's HTTPS server. They are reloaded when their files change.

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

use crate::disk;
use crate::file_watch::{self, FileWatcher, WatchSet};

/// How often the files are read without an event, for file systems that send none.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// Delay after an event, because certificate and key are written one after the other.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Maximum bytes that are read from a file.
const LONGEST_BYTES: u64 = 1 << 20;

/// Paths of certificates and keys.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Configured certificate chain and key, if there are any.
    pub configured: Option<(PathBuf, PathBuf)>,
    /// File with a certificate that the cluster signed, and its key. The kubelet renews it. It may not exist yet.
    pub current: PathBuf,
    /// Configured client CA bundle, if there is one.
    pub client_authorities: Option<PathBuf>,
    /// CA bundle of the cluster, used if none is configured. Without either, only health requests are allowed.
    pub cluster_authorities: PathBuf,
    /// CA of `kubelet metrics-certificate`, which is added to the client CAs. It may not exist.
    pub local_authority: PathBuf,
}

/// The reason why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file that cannot be read.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A file has invalid content.
    #[error("{path} {fault}")]
    Unusable {
        /// The invalid file.
        path: PathBuf,
        /// What is wrong with the file. The message shows it after the path.
        fault: String,
    },
    /// A self-signed certificate cannot be created.
    #[error("cannot create a certificate for this node: {0}")]
    SelfSigned(rcgen::Error),
    /// Certificate and key do not match.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// A self-signed certificate, used while there is no other.
#[derive(Debug)]
struct SelfSigned {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// The content of the files. It is empty for missing files.
#[derive(Debug, Default, PartialEq, Eq)]
struct LoadedFiles {
    certificates: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
}

/// The serving certificate in use, and its files.
#[derive(Debug)]
pub struct ServingCertificates {
    files: Files,
    self_signed: SelfSigned,
    found: LoadedFiles,
}

impl ServingCertificates {
    /// Reads the files, and builds the TLS configuration for a node with this name and these addresses.
    ///
    /// # Errors
    /// If a configured file cannot be used.
    pub async fn open(
        files: Files,
        node: &str,
        addresses: &[IpAddr],
    ) -> Result<(Self, Arc<tls::Config>), Error> {
        let self_signed = SelfSigned::new(node, addresses)?;
        let mut found = files.read().await?;
        let config = match found.config(&files, &self_signed) {
            // Files that are not configured are renewed automatically, so the error is temporary.
            Err(error) if files.configured.is_none() || files.client_authorities.is_none() => {
                tracing::error!(%error, "cannot use the certificate files, using a self-signed certificate or no client CA instead");
                if files.configured.is_none() {
                    (found.certificates, found.key) = Default::default();
                }
                if files.client_authorities.is_none() {
                    found.authorities = Vec::new();
                }
                found.config(&files, &self_signed)?
            }
            other => other?,
        };
        Ok((Self { files, self_signed, found }, config))
    }

    /// Reloads changed files until the server stops. Open connections continue, except those of clients whose CA was removed.
    pub async fn follow(mut self, swap: watch::Sender<Arc<tls::Config>>) {
        let mut watcher = FileWatcher::default();
        let mut last_error = String::new();
        loop {
            let files = self.files.clone();
            if !watcher.watch(&disk::run(move || files.watch_set()).await) {
                tokio::select! {
                    () = tokio::time::sleep(RELOAD_INTERVAL) => {}
                    _ = watcher.next() => tokio::time::sleep(SETTLE_TIME).await,
                    () = swap.closed() => return,
                }
            }
            match self.changed().await {
                Ok(None) => {}
                Ok(Some(config)) => {
                    swap.send_replace(config);
                    last_error.clear();
                    tracing::info!("reloaded the certificates of the HTTPS server");
                }
                Err(error) => {
                    // Log each error once, not at each attempt.
                    let error = error.to_string();
                    if last_error != error {
                        tracing::error!(error, "cannot reload certificates, keeping the previous ones");
                        last_error = error;
                    }
                }
            }
        }
    }

    /// The new TLS configuration, if the files have changed.
    async fn changed(&mut self) -> Result<Option<Arc<tls::Config>>, Error> {
        let found = self.files.read().await?;
        if found == self.found {
            return Ok(None);
        }
        let config = found.config(&self.files, &self.self_signed)?;
        self.found = found;
        Ok(Some(config))
    }
}

impl Files {
    async fn read(&self) -> Result<LoadedFiles, Error> {
        let (certificates, key) = match &self.configured {
            Some((certificates, key)) => (read(certificates).await?, read(key).await?),
            None => {
                let both = read_if_exists(&self.current).await?;
                (both.clone(), both)
            }
        };
        let mut authorities = match &self.client_authorities {
            Some(path) => read(path).await?,
            None => read_if_exists(&self.cluster_authorities).await?,
        };
        let local = read_if_exists(&self.local_authority).await?;
        if !local.is_empty() {
            authorities.push(b'\n');
            authorities.extend(local);
        }
        Ok(LoadedFiles { certificates, key, authorities })
    }

    /// The names to watch, because their changes may change the content of a file.
    fn watch_set(&self) -> WatchSet {
        let configured = self.configured.iter().flat_map(|(certificates, key)| [certificates, key]);
        let all = configured.chain(&self.client_authorities).chain([
            &self.current,
            &self.cluster_authorities,
            &self.local_authority,
        ]);
        // A path that cannot be resolved is read at the next interval.
        let resolved = all.filter_map(|path| file_watch::resolve(path).ok());
        WatchSet { directory: None, places: resolved.flat_map(|resolved| resolved.places).collect() }
    }

    /// Paths of certificate and key.
    fn names(&self) -> (&Path, &Path) {
        self.configured
            .as_ref()
            .map_or((&self.current, &self.current), |(certificates, key)| (certificates, key))
    }
}

impl LoadedFiles {
    fn config(&self, files: &Files, self_signed: &SelfSigned) -> Result<Arc<tls::Config>, Error> {
        let named = files.client_authorities.as_ref();
        let client_authorities = if named.is_none() && self.authorities.is_empty() {
            Vec::new()
        } else {
            certificates(named.unwrap_or(&files.cluster_authorities), &self.authorities)?
        };
        let (chain, key) = if self.certificates.is_empty() {
            (vec![self_signed.certificate.clone()], PrivatePkcs8KeyDer::from(self_signed.key.clone()).into())
        } else {
            let (path, key_path) = files.names();
            let unusable = |error: rustls::pki_types::pem::Error| {
                let fault =
                    format!("contains no readable private key (-----BEGIN PRIVATE KEY-----): {error}");
                Error::Unusable { path: key_path.to_owned(), fault }
            };
            let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(unusable)?;
            (certificates(path, &self.certificates)?, key)
        };
        Ok(tls::config(Keys { chain, key, client_authorities })?)
    }
}

impl SelfSigned {
    fn new(node: &str, addresses: &[IpAddr]) -> Result<Self, Error> {
        let names: Vec<String> =
            [node.to_owned()].into_iter().chain(addresses.iter().map(IpAddr::to_string)).collect();
        let key = KeyPair::generate().map_err(Error::SelfSigned)?;
        let mut params = CertificateParams::new(names).map_err(Error::SelfSigned)?;
        params.distinguished_name.push(DnType::CommonName, node);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).map_err(Error::SelfSigned)?;
        Ok(Self { certificate: certificate.der().clone(), key: key.serialize_der() })
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = |fault: String| Error::Unusable { path: path.to_owned(), fault };
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(format!("is damaged: {error}")))?;
    if all.is_empty() {
        return Err(unusable("contains no certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(all)
}

async fn read_if_exists(path: &Path) -> Result<Vec<u8>, Error> {
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
