//! Reads the data directory of a master on this machine, without changing it.

pub mod certificates;
pub mod disk;

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use self::certificates::Read;
use self::disk::Room;
use crate::backup::SOCKET;
use crate::check::finding::Finding;
use crate::data_dir::DataDir;
use crate::pki::files::OTHERS;
use crate::pki::{self, Validity};
use crate::store::DIRECTORY;

/// Contents of a data directory.
#[derive(Clone, Debug)]
pub struct Here {
    /// Path of the directory.
    pub path: PathBuf,
    /// Whether the directory exists.
    pub exists: bool,
    /// Whether a master is running on it.
    pub runs: bool,
    /// Advertised address of the master.
    pub advertised: Option<SocketAddr>,
    /// Certificate files that exist.
    pub certificates: Vec<Read>,
    /// The previous root during a CA rotation.
    pub retiring: Option<Read>,
    /// Names of the intermediate CAs of the current root, the signing one first. They are empty if they cannot be
    /// read.
    pub signers: Vec<String>,
    /// Files with private keys that exist.
    pub secrets: Vec<Secret>,
    /// Free disk space.
    pub room: Result<Room, String>,
    /// Size of the embedded store in bytes. `None` if there is none or it cannot be read.
    pub store_bytes: Option<u64>,
}

/// Reads the directory.
pub fn look(path: &Path) -> Here {
    let directory = DataDir::at(path);
    let own = directory.pki();
    let files = pki::CERTIFICATES.iter().map(|name| own.join(name));
    let keys = pki::KEYS
        .iter()
        .map(|name| own.join(name))
        .chain([directory.admin_kubeconfig(), directory.bootstrap_kubeconfig()]);
    Here {
        path: path.to_owned(),
        exists: path.is_dir(),
        // The socket closes with the process. Connecting to it does not take the lock from a master that is starting.
        runs: UnixStream::connect(path.join(SOCKET)).is_ok(),
        advertised: directory.advertised().ok(),
        certificates: files.filter_map(|path| read(&path)).collect(),
        retiring: read(&own.join(pki::rotate::RETIRING)),
        signers: pki::rotate::intermediates_below_root(&own)
            .iter()
            .filter_map(|der| Some(Validity::of(der).ok()?.name))
            .collect(),
        secrets: keys.filter_map(|path| secret(&path)).collect(),
        room: room(path),
        store_bytes: bytes_of(&path.join(DIRECTORY)),
    }
}

/// Reads a certificate file. `None` if it does not exist.
fn read(path: &Path) -> Option<Read> {
    let validities = match pki::files::read(path) {
        Ok(None) => return None,
        Ok(Some(pem)) => pki::validities(&pem).map_err(|fault| format!("it {fault}")),
        Err(error) => Err(error.to_string()),
    };
    Some(Read { file: path.display().to_string(), validities })
}

/// Reads the mode of a key file. `None` if it does not exist or cannot be read.
fn secret(path: &Path) -> Option<Secret> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    Some(Secret { file: path.display().to_string(), mode })
}

fn room(path: &Path) -> Result<Room, String> {
    let found = statvfs(path).map_err(|error| error.to_string())?;
    Ok(Room {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        // File systems without inodes report 0.
        free_files: (found.f_files > 0).then_some(found.f_favail),
    })
}

/// Total size of the files in a directory, in bytes.
fn bytes_of(directory: &Path) -> Option<u64> {
    match fs::read_dir(directory) {
        Ok(entries) => {
            let sizes = entries.filter_map(|entry| entry.ok()?.metadata().ok());
            Some(sizes.filter(fs::Metadata::is_file).map(|file| file.len()).sum())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => None,
    }
}

/// A file with a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Path of the file.
    pub file: String,
    /// Permission bits.
    pub mode: u32,
}

/// The findings for files that other users can access.
pub fn secret_findings(secrets: &[Secret]) -> Vec<Finding> {
    let open = secrets.iter().filter(|secret| secret.mode & OTHERS != 0);
    open.map(|Secret { file, mode }| {
        let what = format!("is accessible to other users (mode {:o})", mode & 0o777);
        let remedy = format!("`chmod 600 {file}`; if the key may be compromised, replace it");
        Finding::problem(file.as_str(), what, remedy).because("its private key gives access to the cluster")
    })
    .collect()
}
