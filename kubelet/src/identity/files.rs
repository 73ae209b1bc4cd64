//! The files of the node's identity: certificates with their keys, keys of pending CSRs, and the kubeconfig.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};

use super::access::{ClusterAccess, Credentials};
use super::certificate::Certificate;
use super::csr::Kind;
use super::error::ApiError;
use super::kubeconfig::{self, Data, Kubeconfig};

/// Largest file that is read, in bytes. A chain with its key has a few KiB, a CA bundle some more.
const MAX_BYTES: u64 = 1 << 20;
/// Mode of files that contain a key or the path of a key.
const SECRET: u32 = 0o600;

/// Paths of the files.
#[derive(Clone, Debug)]
pub struct Files {
    /// Directory of certificates and keys.
    pub cert_dir: PathBuf,
    pub kubeconfig: PathBuf,
}

impl Files {
    /// Path of the current certificate with its key.
    pub fn current(&self, kind: Kind) -> PathBuf {
        self.cert_dir.join(kind.current())
    }

    /// Path of the key of the pending CSR.
    fn waiting(&self, kind: Kind) -> PathBuf {
        self.cert_dir.join(format!("{}.key.tmp", kind.stem()))
    }

    /// Reads the current certificate. An invalid one is logged, and the node requests another.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn certificate(&self, kind: Kind) -> Result<Option<Certificate>, ApiError> {
        let path = self.current(kind);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let written = fs::metadata(&path).and_then(|file| file.modified()).ok();
        let since = written.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::MIN);
        // The file time is in the future if the clock was ahead, or if a user set it.
        let since = since.min(Timestamp::now());
        let read = Certificate::read(&bytes, since);
        let log_invalid = |why: &String| tracing::warn!(path = %path.display(), "{} {why}; requesting another one", path.display());
        Ok(read.inspect_err(log_invalid).ok())
    }

    /// The key of the pending CSR, unless it is the `spent` one (public key, DER). If the key is missing, a new one
    /// is generated.
    ///
    /// # Errors
    /// If the key cannot be read or written.
    pub fn key(&self, kind: Kind, spent: Option<&[u8]>) -> Result<KeyPair, ApiError> {
        let path = self.waiting(kind);
        let found = read(&path)?.and_then(|bytes| KeyPair::from_pem(&String::from_utf8_lossy(&bytes)).ok());
        // If the kubelet was killed after an issue, this may be the key of the current certificate.
        if let Some(key) = found.filter(|key| spent != Some(key.subject_public_key_info().as_slice())) {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(|error| {
            ApiError::invalid("the system", format!("cannot provide randomness for a key: {error}"))
        })?;
        write(&path, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    /// Stores an issued certificate (PEM) with its key, and removes the pending key.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, kind: Kind, chain: &[u8], key: &str) -> Result<(), ApiError> {
        let mut both = chain.to_vec();
        if !both.ends_with(b"\n") {
            both.push(b'\n');
        }
        both.extend_from_slice(key.as_bytes());
        write(&self.current(kind), &both)?;
        self.forget_key(kind)
    }

    /// Removes the pending key, so that the next CSR has a new one.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget_key(&self, kind: Kind) -> Result<(), ApiError> {
        let path = self.waiting(kind);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ApiError::from_file(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Reads this node's kubeconfig. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// If the kubeconfig is invalid.
    pub fn known(&self) -> Result<Option<ClusterAccess>, ApiError> {
        let invalid = |why: String| ApiError::invalid(self.kubeconfig.display().to_string(), why);
        let Some((file, mut known)) = public(&self.kubeconfig)? else { return Ok(None) };
        match shown(&file) {
            Ok(credentials) => known.credentials = credentials,
            // The node's own certificate is read separately, and requested again if it is invalid.
            Err(_) if file.certificate.is_some() => {}
            Err(why) => return Err(invalid(why)),
        }
        Ok(Some(known))
    }

    /// Writes the CAs for client certificates of the kubelet's server. Returns whether they changed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_authorities(&self, authorities: &[u8]) -> Result<(), ApiError> {
        let path = self.cert_dir.join(crate::options::CLUSTER_AUTHORITIES);
        if read(&path)?.is_some_and(|before| before == authorities) {
            return Ok(());
        }
        write(&path, authorities)
    }

    /// Writes this node's kubeconfig if it changes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, known: &ClusterAccess) -> Result<(), ApiError> {
        let text = kubeconfig::text(known, &self.current(Kind::Client));
        if read(&self.kubeconfig)?.is_some_and(|before| before == text.as_bytes()) {
            return Ok(());
        }
        write(&self.kubeconfig, text.as_bytes())
    }

    /// Whether the kubeconfig names a certificate that this node does not manage, because a user wrote it.
    ///
    /// # Errors
    /// If the kubeconfig is invalid.
    pub fn shows_others(&self) -> Result<bool, ApiError> {
        let found = public(&self.kubeconfig)?;
        let is_others =
            |file: Kubeconfig| file.certificate.is_some() && !file.leads_to(&self.current(Kind::Client));
        Ok(found.is_some_and(|(file, _)| is_others(file)))
    }

    /// The remedy if the cluster no longer accepts this node's key, as the end of an error message. With
    /// `shows_others`, the certificate in the kubeconfig must be replaced too.
    pub fn remedy_of_unregistered(&self, shows_others: bool) -> String {
        let (own, kubeconfig) = (self.current(Kind::Client), self.kubeconfig.display());
        let own = own.display();
        let (remove, rest) = if shows_others {
            let replace = format!(
                "replace the certificate in {kubeconfig}, which the kubelet did not write, with one for a new key, remove \
                 {own} if it exists"
            );
            (replace, String::new())
        } else {
            (format!("remove {own}"), format!("; {kubeconfig} and the flags may stay"))
        };
        format!(
            "; the Node was deleted, or another machine has taken its place. To join as a new machine {remove} and start the kubelet \
             again{rest}"
        )
    }

    /// Rewrites the kubeconfig if this node wrote it. Returns false for a kubeconfig that a user wrote, and does
    /// not change it.
    ///
    /// # Errors
    /// If the kubeconfig is invalid or cannot be written.
    pub fn rewrite_kubeconfig(&self, known: &ClusterAccess) -> Result<bool, ApiError> {
        let found = public(&self.kubeconfig)?;
        if !found.is_some_and(|(file, _)| file.leads_to(&self.current(Kind::Client))) {
            return Ok(false);
        }
        self.write_kubeconfig(known).map(|()| true)
    }
}

/// Reads a kubeconfig that a user wrote, with all files that it names. Returns `None` if it does not exist.
///
/// # Errors
/// If the kubeconfig is invalid, or names files that cannot be read.
pub fn known(path: &Path) -> Result<Option<ClusterAccess>, ApiError> {
    let invalid = |why: String| ApiError::invalid(path.display().to_string(), why);
    let Some((file, known)) = public(path)? else { return Ok(None) };
    Ok(Some(known.with_credentials(shown(&file).map_err(invalid)?)))
}

/// Reads a kubeconfig without its credentials.
fn public(path: &Path) -> Result<Option<(Kubeconfig, ClusterAccess)>, ApiError> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    let invalid = |why: String| ApiError::invalid(path.display().to_string(), why);
    let file = Kubeconfig::read(&bytes, path.parent().unwrap_or(Path::new("."))).map_err(invalid)?;
    let authority = resolve(&file.authority)
        .map_err(invalid)?
        .ok_or_else(|| invalid("names a certificate-authority that does not exist".to_owned()))?;
    let known = ClusterAccess {
        servers: file.servers.clone(),
        authority,
        retiring: file.retiring.clone(),
        former: file.former.clone(),
        credentials: Credentials::Anonymous,
    };
    Ok(Some((file, known)))
}

/// The credentials of a kubeconfig; anonymous if their files do not exist.
fn shown(file: &Kubeconfig) -> Result<Credentials, String> {
    if let Some((chain, key)) = &file.certificate
        && let (Some(chain), Some(key)) = (resolve(chain)?, resolve(key)?)
    {
        let own = Certificate::of(&chain, &key, Timestamp::MIN);
        let own = own.map_err(|why| format!("names a client certificate that {why}"))?;
        return Ok(Credentials::Certificate(Arc::new(own)));
    }
    let token = file.token.as_ref().map(resolve).transpose()?.flatten();
    Ok(token.map_or(Credentials::Anonymous, |token| {
        Credentials::Token(String::from_utf8_lossy(&token).trim().to_owned())
    }))
}

fn resolve(data: &Data) -> Result<Option<Vec<u8>>, String> {
    match data {
        Data::Here(bytes) => Ok(Some(bytes.clone())),
        Data::File(path) => read(path).map_err(|error| format!("names a file that cannot be used: {error}")),
    }
}

/// The content of a file, or `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ApiError> {
    let failed = |error: io::Error| ApiError::from_file(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Writes a file atomically. After a crash it has either the old or the new content.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ApiError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".new");
    let partial = Path::new(&partial);
    let written = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // A file left by a killed kubelet may have another mode.
        match fs::remove_file(partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(SECRET).open(partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(partial, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(|error| ApiError::from_file(path, &error))
}
