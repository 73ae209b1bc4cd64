//! The kubelet's root directory: its lock, so that only one kubelet uses it, and the local socket.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Name of the socket file.
const SOCKET: &str = "kubelet.sock";
/// Name of the lock file.
const LOCK: &str = "kubelet.lock";

/// The reason why the root directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another kubelet holds the lock.
    #[error("another kubelet runs on {path}: stop it, or give this one another --root-dir")]
    Taken {
        /// The locked directory.
        path: PathBuf,
    },
    /// The socket path is too long for the operating system.
    #[error("{0}")]
    TooLong(String),
    /// An I/O error.
    #[error("cannot {operation} {path}: {source}; check --root-dir and its permissions")]
    Io {
        operation: &'static str,
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// The locked root directory. It stays locked until this value is dropped.
#[derive(Debug)]
pub struct RootDir {
    path: PathBuf,
    _lock: File,
}

impl RootDir {
    /// Creates and locks the directory. It waits a short time for a kubelet that is ending to release the lock.
    /// Blocks.
    ///
    /// # Errors
    /// If another kubelet has the lock, the directory is not writable, or the socket path is too long.
    pub fn take(path: &Path) -> Result<Self, Error> {
        command::check_socket_path(&path.join(SOCKET), "--root-dir").map_err(Error::TooLong)?;
        let io = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { operation, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("make", path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io("open", &lock_path))?;
        match command::lock(&lock, command::LOCK_TIMEOUT) {
            Ok(true) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Ok(false) => Err(Error::Taken { path: path.to_owned() }),
            Err(error) => Err(io("lock", &lock_path)(error)),
        }
    }

    /// Listens on the socket, and replaces a stale one.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn listen(&self) -> Result<UnixListener, Error> {
        let path = self.path.join(SOCKET);
        let io = |source| Error::Io { operation: "listen on", path: path.clone(), source };
        // Created in a private directory, so that it is never accessible before its mode is set. That path is not longer than
        // the final one.
        let hidden = tempfile::Builder::new().prefix(".s").tempdir_in(&self.path).map_err(io)?;
        let newborn = hidden.path().join("s");
        let listener = UnixListener::bind(&newborn).map_err(io)?;
        fs::set_permissions(&newborn, Permissions::from_mode(0o600)).map_err(io)?;
        fs::rename(&newborn, &path).map_err(io)?;
        Ok(listener)
    }
}

impl Drop for RootDir {
    fn drop(&mut self) {
        // The lock file stays, because the next kubelet may have opened it.
        let _ = fs::remove_file(self.path.join(SOCKET));
    }
}
