//! What a node keeps of who it is: certificates with their keys, keys that wait for theirs, and the kubeconfig.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};

use super::access::{Known, Shows};
use super::certificate::Certificate;
use super::kubeconfig::{self, Data, Kubeconfig};
use super::request::Kind;
use super::trouble::Trouble;

/// Longest file that is read: a chain and a key are a few KiB, a bundle of authorities some more.
const LONGEST_BYTES: u64 = 1 << 20;
/// Mode of whatever holds a key, or says where one is.
const SECRET: u32 = 0o600;

/// Where they are.
#[derive(Clone, Debug)]
pub struct Files {
    /// Of certificates and keys.
    pub cert_dir: PathBuf,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
}

impl Files {
    /// The certificate with its key.
    pub fn current(&self, kind: Kind) -> PathBuf {
        self.cert_dir.join(kind.current())
    }

    /// The key that waits for its certificate.
    fn waiting(&self, kind: Kind) -> PathBuf {
        self.cert_dir.join(format!("{}.key.tmp", kind.stem()))
    }

    /// The certificate that this node has; one that cannot be used is told in the log and asked for anew.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn certificate(&self, kind: Kind) -> Result<Option<Certificate>, Trouble> {
        let path = self.current(kind);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let written = fs::metadata(&path).and_then(|file| file.modified()).ok();
        let since = written.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::MIN);
        // Written while the clock was ahead, or by somebody who says so.
        let since = since.min(Timestamp::now());
        let read = Certificate::read(&bytes, since);
        let told = |why: &String| tracing::warn!(path = %path.display(), "{} {why}; asking for another", path.display());
        Ok(read.inspect_err(told).ok())
    }

    /// The key that waits for its certificate, which is not the spent one (DER); made where there is none.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn key(&self, kind: Kind, spent: Option<&[u8]>) -> Result<KeyPair, Trouble> {
        let path = self.waiting(kind);
        let found = read(&path)?.and_then(|bytes| KeyPair::from_pem(&String::from_utf8_lossy(&bytes)).ok());
        // A kill may have left the key of the certificate that there is now.
        if let Some(key) = found.filter(|key| spent != Some(key.subject_public_key_info().as_slice())) {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(|error| {
            Trouble::damaged("the system", format!("has no randomness for a key: {error}"))
        })?;
        write(&path, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    /// Takes a certificate (PEM) and its key into use; the key waits no more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, kind: Kind, chain: &[u8], key: &str) -> Result<(), Trouble> {
        let mut both = chain.to_vec();
        if !both.ends_with(b"\n") {
            both.push(b'\n');
        }
        both.extend_from_slice(key.as_bytes());
        write(&self.current(kind), &both)?;
        self.forget_key(kind)
    }

    /// The next key is another one.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget_key(&self, kind: Kind) -> Result<(), Trouble> {
        let path = self.waiting(kind);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Trouble::file(&path, &error)),
            _ => Ok(()),
        }
    }

    /// What this node's kubeconfig says, if there is one.
    ///
    /// # Errors
    /// When it does not read.
    pub fn known(&self) -> Result<Option<Known>, Trouble> {
        let damaged = |why: String| Trouble::damaged(self.kubeconfig.display().to_string(), why);
        let Some((file, mut known)) = public(&self.kubeconfig)? else { return Ok(None) };
        match shown(&file) {
            Ok(shows) => known.shows = shows,
            // What this node shows is read by itself, and asked for anew where it cannot be used.
            Err(_) if file.certificate.is_some() => {}
            Err(why) => return Err(damaged(why)),
        }
        Ok(Some(known))
    }

    /// Writes down whose clients this node answers, unless it is written already; whether it was not.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_authorities(&self, authorities: &[u8]) -> Result<bool, Trouble> {
        let path = self.cert_dir.join(super::AUTHORITIES);
        if read(&path)?.is_some_and(|before| before == authorities) {
            return Ok(false);
        }
        write(&path, authorities).map(|()| true)
    }

    /// Writes this node's kubeconfig, unless it says so already.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_kubeconfig(&self, known: &Known) -> Result<(), Trouble> {
        let text = kubeconfig::text(known, &self.current(Kind::Client));
        if read(&self.kubeconfig)?.is_some_and(|before| before == text.as_bytes()) {
            return Ok(());
        }
        write(&self.kubeconfig, text.as_bytes())
    }

    /// Whether the kubeconfig shows a certificate that this node does not keep itself: whoever wrote it put it there.
    ///
    /// # Errors
    /// When it does not read.
    pub fn shows_others(&self) -> Result<bool, Trouble> {
        let found = public(&self.kubeconfig)?;
        let is_others =
            |file: Kubeconfig| file.certificate.is_some() && !file.leads_to(&self.current(Kind::Client));
        Ok(found.is_some_and(|(file, _)| is_others(file)))
    }

    /// What to do about a cluster that does not know this node by its key any more, as the end of what it said; where the kubeconfig
    /// shows a certificate of its own, that has to be replaced too.
    pub fn remedy_of_unregistered(&self, shows_others: bool) -> String {
        let (own, kubeconfig) = (self.current(Kind::Client), self.kubeconfig.display());
        let own = own.display();
        let (remove, rest) = if shows_others {
            let replace = format!(
                "replace the certificate in {kubeconfig}, which the kubelet has not written, by one for a new key, remove {own} where it \
                 is there"
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

    /// Writes it anew where it is this node's own; false where it is somebody else's, which is left as it is.
    ///
    /// # Errors
    /// When it does not read, or cannot be written.
    pub fn rewrite_kubeconfig(&self, known: &Known) -> Result<bool, Trouble> {
        let found = public(&self.kubeconfig)?;
        if !found.is_some_and(|(file, _)| file.leads_to(&self.current(Kind::Client))) {
            return Ok(false);
        }
        self.write_kubeconfig(known).map(|()| true)
    }
}

/// What somebody else's kubeconfig says, with everything that it refers to; `None` when it is not there.
///
/// # Errors
/// When it does not read, or names files that cannot be read.
pub fn known(path: &Path) -> Result<Option<Known>, Trouble> {
    let damaged = |why: String| Trouble::damaged(path.display().to_string(), why);
    let Some((file, known)) = public(path)? else { return Ok(None) };
    Ok(Some(known.showing(shown(&file).map_err(damaged)?)))
}

/// All of it but what is shown.
fn public(path: &Path) -> Result<Option<(Kubeconfig, Known)>, Trouble> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    let damaged = |why: String| Trouble::damaged(path.display().to_string(), why);
    let file = Kubeconfig::read(&bytes, path.parent().unwrap_or(Path::new("."))).map_err(damaged)?;
    let authority = resolve(&file.authority)
        .map_err(damaged)?
        .ok_or_else(|| damaged("names a certificate-authority that is not there".to_owned()))?;
    let known = Known {
        servers: file.servers.clone(),
        authority,
        leaving: file.leaving.clone(),
        before: file.before.clone(),
        shows: Shows::Nothing,
    };
    Ok(Some((file, known)))
}

/// What it shows, nothing when that is not there.
fn shown(file: &Kubeconfig) -> Result<Shows, String> {
    if let Some((chain, key)) = &file.certificate
        && let (Some(chain), Some(key)) = (resolve(chain)?, resolve(key)?)
    {
        let own = Certificate::of(&chain, &key, Timestamp::MIN);
        let own = own.map_err(|why| format!("names a client certificate that {why}"))?;
        return Ok(Shows::Certificate(Arc::new(own)));
    }
    let token = file.token.as_ref().map(resolve).transpose()?.flatten();
    Ok(token.map_or(Shows::Nothing, |token| Shows::Token(String::from_utf8_lossy(&token).trim().to_owned())))
}

fn resolve(data: &Data) -> Result<Option<Vec<u8>>, String> {
    match data {
        Data::Here(bytes) => Ok(Some(bytes.clone())),
        Data::File(path) => {
            read(path).map_err(|trouble| format!("names a file that is of no use: {trouble}"))
        }
    }
}

/// What a file holds; `None` when it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Trouble> {
    let failed = |error: io::Error| Trouble::file(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Writes a file in one step: afterwards it holds this, or still what it held before, whatever happens in between.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Trouble> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".new");
    let partial = Path::new(&partial);
    let written = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // A leftover of a kill could have another mode.
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
    written().map_err(|error| Trouble::file(path, &error))
}
