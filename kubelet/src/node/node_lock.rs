//! Locks a node name on an engine. Two kubelets with the same name would each manage the other's containers.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};

/// Directory of the locks that root takes. It is empty after a reboot.
const ROOT_LOCK_DIR: &str = "/run/coracle";
/// Maximum number of bytes that are read of a lock file. It contains a pid and a path.
const MAX_HOLDER_BYTES: u64 = 8 * 1024;
/// Maximum number of attempts to lock a file that its last holder is removing.
const MAX_TRIES: usize = 16;

/// The error for a name that another kubelet uses.
#[derive(Debug, thiserror::Error)]
#[error(
    "another kubelet uses the node name {node} on {endpoint}: {holder}; stop it, or give this one another \
     --hostname-override, because a kubelet finds its containers by the node name"
)]
pub struct NodeNameInUse {
    node: String,
    endpoint: String,
    holder: String,
}

/// A node name on an engine, locked against other kubelets of this machine. The kernel releases the lock when the
/// process ends.
#[derive(Debug)]
pub struct NodeLock {
    path: PathBuf,
    _lock: File,
}

impl NodeLock {
    /// Takes the lock, and waits for a kubelet that is stopping. If no lock file can be used, logs that and returns
    /// `None`, because running without a lock is better than not running. Blocks.
    ///
    /// # Errors
    /// If another kubelet has the lock. The message names its pid and directory.
    pub fn acquire(node: &str, endpoint: &str, root_dir: &Path) -> Result<Option<Self>, NodeNameInUse> {
        let directory = directory();
        match create_private_dir(&directory)
            .and_then(|()| Self::acquire_in(&directory, node, endpoint, root_dir))
        {
            Ok(Ok(lock)) => Ok(Some(lock)),
            Ok(Err(in_use)) => Err(in_use),
            Err(error) => {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "cannot lock this node's name against other kubelets");
                Ok(None)
            }
        }
    }

    fn acquire_in(
        directory: &Path,
        node: &str,
        endpoint: &str,
        root_dir: &Path,
    ) -> io::Result<Result<Self, NodeNameInUse>> {
        let key = Sha256::digest([node, &canonical_endpoint(endpoint)].join("\0"));
        let path = directory.join(format!("kubelet-{}.lock", hex::encode(&key[..16])));
        remove_stale(directory, &path);
        for _ in 0..MAX_TRIES {
            let mut options = OpenOptions::new();
            let mut lock =
                options.create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
            if !command::lock(&lock, command::LOCK_TIMEOUT)? {
                let (node, endpoint) = (node.to_owned(), endpoint.to_owned());
                return Ok(Err(NodeNameInUse { node, endpoint, holder: holder(&lock) }));
            }
            if !is_same_file(&lock, &path) {
                continue;
            }
            lock.set_len(0)?;
            let root_dir = std::path::absolute(root_dir).unwrap_or_else(|_| root_dir.to_owned());
            write!(lock, "{}\n{}\n", std::process::id(), root_dir.display())?;
            return Ok(Ok(Self { path, _lock: lock }));
        }
        Err(io::Error::other(format!("another program repeatedly creates and removes {}", path.display())))
    }
}

/// Removes the files of kubelets that were killed, except the one at `own`. A file that cannot be removed stays.
fn remove_stale(directory: &Path, own: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_lock =
            name.to_str().is_some_and(|name| name.starts_with("kubelet-") && name.ends_with(".lock"));
        if !is_lock || path == own {
            continue;
        }
        let Ok(lock) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // Removed while it is locked, like the file of a kubelet that ends.
        if command::lock(&lock, Duration::ZERO).is_ok_and(|is_locked| is_locked) && is_same_file(&lock, &path)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        // The file is removed while it is locked. A kubelet that opened it meanwhile notices that and creates another
        // one.
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock directory of this user. Kubelets of root and of other users do not see each other's locks.
fn directory() -> PathBuf {
    if geteuid().is_root() {
        return PathBuf::from(ROOT_LOCK_DIR);
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(own) => PathBuf::from(own).join("coracle"),
        None => std::env::temp_dir().join(format!("coracle-{}", geteuid().as_raw())),
    }
}

/// Creates the directory, and checks that this user owns it.
fn create_private_dir(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let is = fs::symlink_metadata(directory)?;
    if is.is_dir() && is.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
}

/// The canonical form of the engine's address. A socket is in its real directory, because `/var/run` links to
/// `/run`.
fn canonical_endpoint(endpoint: &str) -> String {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !path.starts_with('/') {
        return endpoint.to_owned();
    }
    let socket = Path::new(path);
    // The socket may be missing while its directory exists.
    let real = match (socket.parent().map(Path::canonicalize), socket.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => socket.to_owned(),
    };
    real.display().to_string()
}

/// Whether the path still refers to the open file.
fn is_same_file(file: &File, path: &Path) -> bool {
    let identity = |is: fs::Metadata| (is.dev(), is.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(there)) => identity(own) == identity(there),
        _ => false,
    }
}

/// Describes the kubelet that wrote the lock file.
fn holder(lock: &File) -> String {
    let mut text = String::new();
    let read = lock.take(MAX_HOLDER_BYTES).read_to_string(&mut text);
    match (read, text.trim_end().split_once('\n')) {
        (Ok(_), Some((process, root_dir))) => format!("process {process} with --root-dir {root_dir}"),
        _ => "it has just been started".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of conflicts between kubelets over a node name or a directory.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::fs;
    use std::path::Path;

    use super::NodeLock;

    const ENGINE: &str = "tcp://10.0.0.1:2375";

    fn acquire(directory: &Path, node: &str, endpoint: &str) -> Result<NodeLock, String> {
        NodeLock::acquire_in(directory, node, endpoint, Path::new("/state"))
            .unwrap()
            .map_err(|taken| taken.to_string())
    }

    #[test]
    fn node_name_is_locked_by_one_kubelet() {
        let folder = tempfile::tempdir().unwrap();
        let first = acquire(folder.path(), "n", ENGINE).unwrap();
        let refused = acquire(folder.path(), "n", ENGINE).unwrap_err();
        let holder = format!(
            "the node name n on {ENGINE}: process {} with --root-dir /state; stop it",
            std::process::id()
        );
        assert!(refused.contains(&holder), "{refused}");
        drop(first);
        drop(acquire(folder.path(), "n", ENGINE).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left lying about");
    }

    #[test]
    fn node_lock_allows_other_names_and_engines() {
        let folder = tempfile::tempdir().unwrap();
        let _first = acquire(folder.path(), "n", ENGINE).unwrap();
        let _other_name = acquire(folder.path(), "m", ENGINE).unwrap();
        let _other_engine = acquire(folder.path(), "n", "tcp://10.0.0.2:2375").unwrap();
    }

    #[test]
    fn lock_files_of_killed_kubelets_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let held = acquire(folder.path(), "held", ENGINE).unwrap();
        for name in ["kubelet-1.lock", "kubelet-2.lock", "network.lock"] {
            fs::write(folder.path().join(name), "4194304\n/gone\n").unwrap();
        }
        let own = acquire(folder.path(), "own", ENGINE).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        for path in [&held.path, &own.path, &folder.path().join("network.lock")] {
            assert!(left.contains(path), "{left:?}");
        }
    }

    #[test]
    fn engine_socket_paths_are_canonicalized() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        std::os::unix::fs::symlink("run", folder.path().join("var-run")).unwrap();
        let endpoint = |way: &str| format!("unix://{}/{way}/docker.sock", folder.path().display());
        let _first = acquire(folder.path(), "n", &endpoint("run")).unwrap();
        acquire(folder.path(), "n", &endpoint("var-run")).unwrap_err();
    }

    #[test]
    fn kubelet_acquires_the_lock_of_a_killed_kubelet() {
        let folder = tempfile::tempdir().unwrap();
        let claim = acquire(folder.path(), "n", ENGINE).unwrap();
        let lock = claim.path.clone();
        drop(claim);
        fs::write(&lock, "4194304\n/long/gone/and/longer/than/what/comes/now\n").unwrap();
        let _next = acquire(folder.path(), "n", ENGINE).unwrap();
        assert_eq!(fs::read_to_string(lock).unwrap(), format!("{}\n/state\n", std::process::id()));
    }
}
