//! The kubelet's directory: one kubelet at a time, and the socket through which it is reached.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The name of the socket in the root directory.
const SOCKET: &str = "kubelet.sock";
/// The name of the lock in the root directory.
const LOCK: &str = "kubelet.lock";

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another kubelet has it.
    #[error("another kubelet runs on {path}: stop it, or give this one another --root-dir")]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// No socket can have its path.
    #[error("{0}")]
    TooLong(String),
    /// The file system refuses.
    #[error("cannot {operation} {path}: {source}; check --root-dir and who may write there")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The kubelet's directory, held against every other kubelet for as long as this lives.
#[derive(Debug)]
pub struct RootDir {
    path: PathBuf,
    _lock: File,
}

impl RootDir {
    /// Makes the directory where there is none and takes it, as soon as a kubelet that ends has let go of it. Blocks.
    ///
    /// # Errors
    /// When another kubelet has it, it cannot be written, or no socket can be in it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        command::socket_fits(&path.join(SOCKET), "--root-dir").map_err(Error::TooLong)?;
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
        match command::lock(&lock, command::ENDS_WITHIN) {
            Ok(true) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Ok(false) => Err(Error::Taken { path: path.to_owned() }),
            Err(error) => Err(io("lock", &lock_path)(error)),
        }
    }

    /// Listens on the socket, which takes the place of one that a kubelet before left behind.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn listen(&self) -> Result<UnixListener, Error> {
        let path = self.path.join(SOCKET);
        let io = |source| Error::Io { operation: "listen on", path: path.clone(), source };
        // Made where nobody else can reach it, so that it never stands open between its birth and its mode.
        // Its path is no longer than that of the socket.
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
        // The lock file stays: a newcomer may hold it open already.
        let _ = fs::remove_file(self.path.join(SOCKET));
    }
}
