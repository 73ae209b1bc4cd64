//! A node's name on an engine belongs to one kubelet: two of one name would take each other's containers for their own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};

/// Where locks lie when root takes them: gone after a reboot, as their holders are.
const OF_ROOT: &str = "/run/coracle";
/// What is read of a lock at most: a process and a path.
const HOLDER_BYTES: u64 = 8 * 1024;
/// Tries to lock a file that its last holder removes at the same moment; each costs one such moment.
const TRIES: usize = 16;

/// The name is another kubelet's.
#[derive(Debug, thiserror::Error)]
#[error(
    "another kubelet is the node {node} on {endpoint}: {holder}; stop it, or give this one another --hostname-override, \
     because the name of a node decides which containers are its own"
)]
pub struct Taken {
    node: String,
    endpoint: String,
    holder: String,
}

/// A node's name on an engine, held against every other kubelet of this machine for as long as this lives. The kernel
/// lets go of it when the process dies.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    /// Takes the name, as soon as a kubelet that ends has let go of it. Blocks. `None` where no lock can be had, which is told in the log: a kubelet runs rather than not.
    ///
    /// # Errors
    /// When another kubelet has it; the message names that one's process and directory.
    pub fn take(node: &str, endpoint: &str, root_dir: &Path) -> Result<Option<Self>, Taken> {
        let directory = directory();
        match make_own(&directory).and_then(|()| Self::take_in(&directory, node, endpoint, root_dir)) {
            Ok(Ok(claim)) => Ok(Some(claim)),
            Ok(Err(taken)) => Err(taken),
            Err(error) => {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "cannot see to it that no other kubelet uses this node's name");
                Ok(None)
            }
        }
    }

    fn take_in(
        directory: &Path,
        node: &str,
        endpoint: &str,
        root_dir: &Path,
    ) -> io::Result<Result<Self, Taken>> {
        let key = Sha256::digest([node, &place(endpoint)].join("\0"));
        let path = directory.join(format!("kubelet-{}.lock", hex::encode(&key[..16])));
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            let mut lock =
                options.create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
            if !command::lock(&lock, command::ENDS_WITHIN)? {
                let (node, endpoint) = (node.to_owned(), endpoint.to_owned());
                return Ok(Err(Taken { node, endpoint, holder: holder(&lock) }));
            }
            if !is_there(&lock, &path) {
                continue;
            }
            lock.set_len(0)?;
            let root_dir = std::path::absolute(root_dir).unwrap_or_else(|_| root_dir.to_owned());
            write!(lock, "{}\n{}\n", std::process::id(), root_dir.display())?;
            return Ok(Ok(Self { path, _lock: lock }));
        }
        Err(io::Error::other(format!("{} comes and goes", path.display())))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is locked: whoever opened it meanwhile sees that it is gone and makes another.
        let _ = fs::remove_file(&self.path);
    }
}

/// Where this user's locks lie. Root's and a user's kubelet do not see each other's.
fn directory() -> PathBuf {
    if geteuid().is_root() {
        return PathBuf::from(OF_ROOT);
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(own) => PathBuf::from(own).join("coracle"),
        None => std::env::temp_dir().join(format!("coracle-{}", geteuid().as_raw())),
    }
}

/// Makes the directory, which must not be a stranger's.
fn make_own(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let is = fs::symlink_metadata(directory)?;
    if is.is_dir() && is.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is somebody else's"))
}

/// The engine's address in one spelling: a socket by its real directory, because `/var/run` is `/run`.
fn place(endpoint: &str) -> String {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !path.starts_with('/') {
        return endpoint.to_owned();
    }
    let socket = Path::new(path);
    // The socket itself may be away; its directory seldom is.
    let real = match (socket.parent().map(Path::canonicalize), socket.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => socket.to_owned(),
    };
    real.display().to_string()
}

/// True when the file still bears that name.
fn is_there(file: &File, path: &Path) -> bool {
    let identity = |is: fs::Metadata| (is.dev(), is.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(there)) => identity(own) == identity(there),
        _ => false,
    }
}

/// Who wrote the lock.
fn holder(lock: &File) -> String {
    let mut text = String::new();
    let read = lock.take(HOLDER_BYTES).read_to_string(&mut text);
    match (read, text.trim_end().split_once('\n')) {
        (Ok(_), Some((process, root_dir))) => format!("process {process} with --root-dir {root_dir}"),
        _ => "it has just been started".to_owned(),
    }
}

#[cfg(test)]
mod tests;
