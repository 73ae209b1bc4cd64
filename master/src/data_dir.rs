//! The data directory of a master: its lock, its identity, its advertised address, and kubeconfigs.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use apiserver::identity::BESIDE_MASTER;
use jiff::Timestamp;
use uuid::Uuid;

use crate::bootstrap::{ClusterInfo, DiscoveryFile};
use crate::kubeconfig::Kubeconfig;
use crate::pki::{self, Names, Pki, files};

/// Lock file.
const LOCK: &str = "master.lock";
/// Directory of certificates.
const PKI: &str = "pki";
/// File with the advertised address, for `join-string` and `kubeconfig`.
const ADDRESS: &str = "advertised-address";
/// File with the id of this master.
const ID: &str = "id";
/// File name of the administrator's kubeconfig.
const ADMIN: &str = "admin.kubeconfig";
/// User in the administrator's kubeconfig.
const ADMIN_USER: &str = "kubernetes-admin";
/// Group in the administrator's kubeconfig.
const ADMIN_GROUP: &str = "system:masters";
/// File name of the kubeconfig with which the kubelet on this machine joins.
const BOOTSTRAP: &str = "bootstrap.kubeconfig";

/// Errors of the data directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another master has locked the directory.
    #[error("another master is running on {0}: stop it, or use another --data-dir")]
    Taken(PathBuf),
    /// No master has run on the directory yet, or the file is damaged.
    #[error("{0} does not contain the address of the master: start `master run` with this --data-dir once")]
    NoAddress(PathBuf),
    /// A kubeconfig cannot be parsed.
    #[error("{0} is damaged; nothing was changed: move it away, and the next start creates a new one")]
    Kubeconfig(PathBuf),
    /// The user name is empty.
    #[error("--user: the user name must not be empty")]
    NoUser,
    /// An error in certificates or files.
    #[error(transparent)]
    Pki(#[from] pki::Error),
}

/// A data directory.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Whether new nodes may join. If not, there is no bootstrap kubeconfig.
    lets_in: bool,
}

/// The lock on a data directory, released on drop.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl DataDir {
    /// Describes the data directory at this path.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), lets_in: true }
    }

    /// Sets whether new nodes may join.
    #[must_use]
    pub fn letting_in(self, lets_in: bool) -> Self {
        Self { lets_in, ..self }
    }

    /// Directory of certificates.
    pub fn pki(&self) -> PathBuf {
        self.path.join(PKI)
    }

    /// Path of the administrator's kubeconfig.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path.join(ADMIN)
    }

    /// Path of the local kubelet's bootstrap kubeconfig.
    pub fn bootstrap_kubeconfig(&self) -> PathBuf {
        self.path.join(BOOTSTRAP)
    }

    /// True if a master has used the directory before.
    pub fn is_known(&self) -> bool {
        self.path.join(LOCK).exists()
    }

    /// Creates the directory if necessary, and locks it. Blocks until a master that is stopping has released the
    /// lock.
    ///
    /// # Errors
    /// If another master has the lock, or the directory cannot be written.
    pub fn take(&self) -> Result<Lock, Error> {
        files::private_directory(&self.path)?;
        let path = self.path.join(LOCK);
        let io = |operation: &'static str| {
            let path = path.clone();
            move |source| Error::Pki(pki::Error::Io { operation, path, source })
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(files::SECRET)
            .open(&path)
            .map_err(io("open"))?;
        match command::lock(&file, command::LOCK_TIMEOUT) {
            Ok(true) => Ok(Lock { _file: file }),
            Ok(false) => Err(Error::Taken(self.path.clone())),
            Err(error) => Err(io("lock")(error)),
        }
    }

    /// Reads the certificates and creates missing CAs.
    ///
    /// # Errors
    /// If they cannot be created or used.
    pub fn open_pki(&self, now: Timestamp) -> Result<Pki, Error> {
        Ok(Pki::open(&self.pki(), now)?)
    }

    /// Reads the certificates without creating any.
    ///
    /// # Errors
    /// If they are missing or cannot be used.
    pub fn read_pki(&self, now: Timestamp) -> Result<Pki, Error> {
        Ok(Pki::read(&self.pki(), now)?)
    }

    /// Writes the advertised address.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn advertise(&self, address: SocketAddr) -> Result<(), Error> {
        let path = self.path.join(ADDRESS);
        let line = format!("{address}\n");
        if files::read(&path)?.as_deref() != Some(line.as_bytes()) {
            files::write(&path, line.as_bytes(), files::PUBLIC)?;
        }
        Ok(())
    }

    /// The random id of this master. It is created once and stays the same across restarts.
    ///
    /// If the file is damaged, a new id is created. Then the leases of the previous run must expire before this
    /// master can take them.
    pub fn id(&self) -> String {
        let path = self.path.join(ID);
        let read = files::read(&path).map(|bytes| {
            bytes.map(|bytes| Uuid::try_parse_ascii(bytes.trim_ascii()).map_err(|error| error.to_string()))
        });
        let fault = match read {
            Ok(Some(Ok(id))) => return id.to_string(),
            Ok(Some(Err(fault))) => Some(fault),
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        };
        let id = Uuid::new_v4().to_string();
        let file = path.display();
        if let Some(fault) = fault {
            tracing::warn!(%file, fault, "cannot read the id of this master; creating a new one");
        }
        if let Err(error) = files::write(&path, format!("{id}\n").as_bytes(), files::SECRET) {
            tracing::warn!(%file, %error, "cannot write the id of this master: the next start creates another one");
        }
        id
    }

    /// Creates `admin.kubeconfig` and `bootstrap.kubeconfig` unless they are still valid. Returns the names of the
    /// new files.
    ///
    /// If no nodes may join, the bootstrap kubeconfig is removed.
    ///
    /// # Errors
    /// If `admin.kubeconfig` is damaged (users may have edited it), or a file cannot be read or written.
    pub fn admit(&self, pki: &Pki, address: SocketAddr, now: Timestamp) -> Result<Vec<&'static str>, Error> {
        let mut made = Vec::new();
        let all = [(ADMIN, ADMIN_USER, ADMIN_GROUP), (BOOTSTRAP, BESIDE_MASTER, BESIDE_MASTER)];
        for (file, user, group) in all {
            if file == BOOTSTRAP && !self.lets_in {
                files::remove(&self.path.join(file))?;
                continue;
            }
            if self.admit_one(file, (user, group), pki, address, now)? {
                made.push(file);
            }
        }
        Ok(made)
    }

    fn admit_one(
        &self,
        file: &str,
        (user, group): (&str, &str),
        pki: &Pki,
        address: SocketAddr,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let path = self.path.join(file);
        let server = format!("https://{address}");
        if let Some(bytes) = files::read(&path)? {
            let read = String::from_utf8(bytes).ok().and_then(|text| Kubeconfig::read(&text));
            if read.is_none() && file == ADMIN {
                return Err(Error::Kubeconfig(path));
            }
            let is_good = |own: Kubeconfig| {
                own.server == server
                    && own.authority == pki.trust_bundle_pem()
                    && pki.is_valid_client(own.credentials.certificates.as_bytes(), now)
            };
            if read.is_some_and(is_good) {
                return Ok(false);
            }
        }
        let text = kubeconfig(pki, server, user, &[group.to_owned()], now)?;
        files::write(&path, text.as_bytes(), files::SECRET)?;
        Ok(true)
    }

    /// Creates a kubeconfig with a new client certificate for a user.
    ///
    /// # Errors
    /// If no master has run here yet, or its files cannot be used.
    pub fn kubeconfig(&self, user: &str, groups: &[String], now: Timestamp) -> Result<String, Error> {
        if user.is_empty() {
            return Err(Error::NoUser);
        }
        let pki = Pki::read(&self.pki(), now)?;
        kubeconfig(&pki, format!("https://{}", self.advertised()?), user, groups, now)
    }

    /// The join string, `https://HOST:PORT#sha256:<hash of the root's public key>`.
    ///
    /// # Errors
    /// The same as [`Self::kubeconfig`].
    pub fn join_string(&self, now: Timestamp) -> Result<String, Error> {
        let pki = Pki::read(&self.pki(), now)?;
        Ok(format!("https://{}#sha256:{}", self.advertised()?, pki.root_hash()))
    }

    /// Creates the file for `master discovery` on a host with these names.
    ///
    /// # Errors
    /// The same as [`Self::kubeconfig`].
    pub fn cluster_info(&self, names: &Names, now: Timestamp) -> Result<String, Error> {
        let pki = Pki::read(&self.pki(), now)?;
        let servers = vec![format!("https://{}", self.advertised()?)];
        let info = ClusterInfo { servers, authority: pki.root_pem(), retiring: pki.retiring_pem() };
        Ok(DiscoveryFile::text(&info, &pki.discovery_credentials(names, now)?))
    }

    /// The advertised address.
    ///
    /// # Errors
    /// If no master has run here yet, or the file cannot be read.
    pub fn advertised(&self) -> Result<SocketAddr, Error> {
        let path = self.path.join(ADDRESS);
        let line = files::read(&path)?.and_then(|bytes| String::from_utf8(bytes).ok());
        line.and_then(|line| line.trim().parse().ok()).ok_or(Error::NoAddress(path))
    }
}

fn kubeconfig(
    pki: &Pki,
    server: String,
    user: &str,
    groups: &[String],
    now: Timestamp,
) -> Result<String, Error> {
    let credentials = pki.client(user, groups, now)?;
    Ok(Kubeconfig { server, authority: pki.trust_bundle_pem(), user: user.to_owned(), credentials }.text())
}

#[cfg(test)]
mod tests;
