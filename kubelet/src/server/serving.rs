//! Serving certificate and client CA bundle of the node's HTTPS server. They are reloaded when their files change.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::tls::{self, Keys};
use rcgen::KeyPair;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

use crate::disk;
use crate::file_watch::{self, FileWatcher, WatchSet};
use crate::local_ca::{self, LocalCa, Signed, ViewerTokens};

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
    /// The node's own CA, which is added to the client CAs. It may not exist.
    pub local_ca: local_ca::Files,
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

/// A self-signed certificate, used while there is no other, and the names in it.
#[derive(Debug)]
struct SelfSigned {
    node: String,
    addresses: Vec<IpAddr>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// The content of the files. It is empty for missing files.
#[derive(Debug, Default, PartialEq, Eq)]
struct LoadedFiles {
    certificates: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
    local_ca: LocalCaFiles,
}

/// The files of the node's own CA, empty if they do not exist. An error has the path and the reason. It stops neither the
/// server nor the use of other certificates.
#[derive(Debug, PartialEq, Eq)]
struct LocalCaFiles {
    certificate: Result<Vec<u8>, String>,
    key: Result<Vec<u8>, String>,
}

impl Default for LocalCaFiles {
    fn default() -> Self {
        Self { certificate: Ok(Vec::new()), key: Ok(Vec::new()) }
    }
}

/// The serving certificate in use, and its files.
#[derive(Debug)]
pub struct ServingCertificates {
    files: Files,
    self_signed: SelfSigned,
    found: LoadedFiles,
    tokens: Arc<ViewerTokens>,
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
        let tokens = Arc::new(ViewerTokens::default());
        tokens.set(found.local_ca.open().as_ref());
        Ok((Self { files, self_signed, found, tokens }, config))
    }

    /// The tokens that the node's own CA signs. They follow changes of its files.
    pub fn viewer_tokens(&self) -> Arc<ViewerTokens> {
        self.tokens.clone()
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
        let had_ca = self.found.local_ca.certificate.as_ref().is_ok_and(|pem| !pem.is_empty());
        if had_ca && found.local_ca.certificate.as_ref().is_ok_and(Vec::is_empty) {
            tracing::warn!("the node's own CA was removed: clients with its certificates are rejected");
        }
        self.tokens.set(found.local_ca.open().as_ref());
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
        let authorities = match &self.client_authorities {
            Some(path) => read(path).await?,
            None => read_if_exists(&self.cluster_authorities).await?,
        };
        let local_ca = LocalCaFiles {
            certificate: read_if_exists(&self.local_ca.certificate).await.map_err(|error| error.to_string()),
            key: read_if_exists(&self.local_ca.key).await.map_err(|error| error.to_string()),
        };
        Ok(LoadedFiles { certificates, key, authorities, local_ca })
    }

    /// The names to watch, because their changes may change the content of a file.
    fn watch_set(&self) -> WatchSet {
        let configured = self.configured.iter().flat_map(|(certificates, key)| [certificates, key]);
        let all = configured.chain(&self.client_authorities).chain([
            &self.current,
            &self.cluster_authorities,
            &self.local_ca.certificate,
            &self.local_ca.key,
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
        let mut client_authorities = if named.is_none() && self.authorities.is_empty() {
            Vec::new()
        } else {
            certificates(named.unwrap_or(&files.cluster_authorities), &self.authorities)?
        };
        client_authorities.extend(self.local_ca.trusted(&files.local_ca.certificate));
        let (chain, key) = if self.certificates.is_empty() {
            self.local_ca.sign_serving(files, self_signed).unwrap_or_else(|| self_signed.pair())
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

impl LocalCaFiles {
    /// The certificate of the CA, if there is one that can be used.
    fn trusted(&self, path: &Path) -> Option<CertificateDer<'static>> {
        let found = match &self.certificate {
            Ok(pem) if pem.is_empty() => return None,
            Ok(pem) => certificates(path, pem).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        let usable = found.and_then(|found| {
            let mut roots = RootCertStore::empty();
            let first = found.into_iter().next().ok_or_else(String::new)?;
            roots.add(first.clone()).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(first)
        });
        let ignored = |error: &String| {
            tracing::error!(error, "cannot use the node's own CA: its clients are rejected");
        };
        usable.inspect_err(ignored).ok()
    }

    /// The CA with its key, if there is one that can be used.
    fn open(&self) -> Option<LocalCa> {
        let (Ok(certificate), Ok(key)) = (&self.certificate, &self.key) else { return None };
        LocalCa::from_pem(certificate, &String::from_utf8_lossy(key)).ok()
    }

    /// A serving certificate that the CA signs. `None` if there is no CA that can sign.
    fn sign_serving(&self, files: &Files, names: &SelfSigned) -> Option<Pair> {
        let (Ok(certificate), Ok(key)) = (&self.certificate, &self.key) else {
            let error = self.key.as_ref().err().or(self.certificate.as_ref().err());
            tracing::error!(error, "cannot use the node's own CA, using a self-signed certificate instead");
            return None;
        };
        if certificate.is_empty() || key.is_empty() {
            return None;
        }
        let ca = LocalCa::from_pem(certificate, &String::from_utf8_lossy(key)).map_err(str::to_owned);
        let signed = ca
            .and_then(|ca| ca.sign_serving(&names.node, &names.addresses).map_err(|error| error.to_string()));
        let pair = signed.and_then(|Signed { certificate, key }| {
            let chain = CertificateDer::from_pem_slice(certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
            chain.and_then(|chain| Ok((vec![chain], key?))).map_err(|error| error.to_string())
        });
        let path = files.local_ca.certificate.display();
        let ignored = |error: &String| {
            tracing::error!(
                error,
                "cannot sign a serving certificate with the CA {path}, using a self-signed certificate instead"
            );
        };
        pair.inspect_err(ignored).ok()
    }
}

/// A certificate chain with its private key.
type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl SelfSigned {
    fn new(node: &str, addresses: &[IpAddr]) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::SelfSigned)?;
        let params = local_ca::serving_params(node, addresses).map_err(Error::SelfSigned)?;
        let certificate = params.self_signed(&key).map_err(Error::SelfSigned)?;
        Ok(Self {
            node: node.to_owned(),
            addresses: addresses.to_vec(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    fn pair(&self) -> Pair {
        (vec![self.certificate.clone()], PrivatePkcs8KeyDer::from(self.key.clone()).into())
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
