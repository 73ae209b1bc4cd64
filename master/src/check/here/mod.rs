//! Looks into the directory of a master that is on this machine. Decides nothing, changes nothing.

pub mod certificates;
pub mod disk;
pub mod secrets;

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use self::certificates::Read;
use self::disk::Room;
use self::secrets::Secret;
use crate::backup::SOCKET;
use crate::data_dir::DataDir;
use crate::pki::{self, Life};
use crate::store::DIRECTORY;

/// What a directory holds.
#[derive(Clone, Debug)]
pub struct Here {
    /// The directory.
    pub path: PathBuf,
    /// It is there.
    pub exists: bool,
    /// A master runs on it.
    pub runs: bool,
    /// What nodes were told of where the master is.
    pub advertised: Option<SocketAddr>,
    /// Its certificates, those that are there.
    pub certificates: Vec<Read>,
    /// The root that is not retired yet, where there is one.
    pub retiring: Option<Read>,
    /// The names of the authorities of the root of now, the one that signs first; none where it cannot be read.
    pub signers: Vec<String>,
    /// Its files that hold keys, those that are there.
    pub secrets: Vec<Secret>,
    /// The room of its disk.
    pub room: Result<Room, String>,
    /// Bytes of the store in it; `None` when there is none, or nobody may look.
    pub store_bytes: Option<u64>,
}

/// Looks.
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
        // The socket is closed with the process, and whether it is open tells without taking the lock from one that starts.
        runs: UnixStream::connect(path.join(SOCKET)).is_ok(),
        advertised: directory.advertised().ok(),
        certificates: files.filter_map(|path| read(&path)).collect(),
        retiring: read(&own.join(pki::rotate::RETIRING)),
        signers: pki::rotate::below_root(&own)
            .iter()
            .filter_map(|der| Some(Life::of(der).ok()?.name))
            .collect(),
        secrets: keys.filter_map(|path| secret(&path)).collect(),
        room: room(path),
        store_bytes: bytes_of(&path.join(DIRECTORY)),
    }
}

/// A file of certificates; `None` where there is none.
fn read(path: &Path) -> Option<Read> {
    let lives = match pki::files::read(path) {
        Ok(None) => return None,
        Ok(Some(pem)) => pki::lives(&pem).map_err(|fault| format!("it {fault}")),
        Err(error) => Err(error.to_string()),
    };
    Some(Read { file: path.display().to_string(), lives })
}

/// A file with a key; `None` where there is none, or nobody may look.
fn secret(path: &Path) -> Option<Secret> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    Some(Secret { file: path.display().to_string(), mode })
}

fn room(path: &Path) -> Result<Room, String> {
    let found = statvfs(path).map_err(|error| error.to_string())?;
    Ok(Room {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        // File systems without inodes have none and need none.
        free_files: (found.f_files > 0).then_some(found.f_favail),
    })
}

/// The files right in a directory, all together.
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
