//! The master's directory: one master at a time, the address it was last told, and kubeconfigs made from its files.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use apiserver::identity::BESIDE_MASTER;
use jiff::Timestamp;
use uuid::Uuid;

use crate::bootstrap::{ClusterInfo, Discovery};
use crate::kubeconfig::Kubeconfig;
use crate::pki::{self, Names, Pki, files};

/// The name of the lock.
const LOCK: &str = "master.lock";
/// The folder of certificates.
const PKI: &str = "pki";
/// The file that tells `join-string` and `kubeconfig` where the master is.
const ADDRESS: &str = "advertised-address";
/// The file of what tells this master from all others.
const ID: &str = "id";
/// The kubeconfig of whoever may do everything.
const ADMIN: &str = "admin.kubeconfig";
/// Its user, and the group that may do everything.
const ADMIN_USER: &str = "kubernetes-admin";
const ADMIN_GROUP: &str = "system:masters";
/// The kubeconfig by which the kubelet of this machine joins.
const BOOTSTRAP: &str = "bootstrap.kubeconfig";

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another master has it.
    #[error("another master runs on {0}: stop it, or give this one another --data-dir")]
    Taken(PathBuf),
    /// No master has run there yet, or the file is damaged.
    #[error("{0} does not tell where the master is: start `master run` with this --data-dir once")]
    NoAddress(PathBuf),
    /// Somebody changed a kubeconfig that the master writes.
    #[error("{0} is damaged; nothing was changed: move it away, the next start makes a new one")]
    Kubeconfig(PathBuf),
    /// A user nobody could be.
    #[error("--user: a user's name is not empty")]
    NoUser,
    /// Certificates and files.
    #[error(transparent)]
    Pki(#[from] pki::Error),
}

/// The directory.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Somebody may become a node: else nobody gets a kubeconfig to join by.
    lets_in: bool,
}

/// The directory held against every other master for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl DataDir {
    /// The one at that path.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), lets_in: true }
    }

    /// The same of a master that lets somebody become a node, or nobody.
    #[must_use]
    pub fn letting_in(self, lets_in: bool) -> Self {
        Self { lets_in, ..self }
    }

    /// Where its certificates are.
    pub fn pki(&self) -> PathBuf {
        self.path.join(PKI)
    }

    /// Where the kubeconfig of its administrator is.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path.join(ADMIN)
    }

    /// Where the kubeconfig is by which the kubelet of this machine joins.
    pub fn bootstrap_kubeconfig(&self) -> PathBuf {
        self.path.join(BOOTSTRAP)
    }

    /// Whether a master has ever taken it.
    pub fn is_known(&self) -> bool {
        self.path.join(LOCK).exists()
    }

    /// Makes the directory where there is none and takes it, as soon as a master that ends has let go of it. Blocks.
    ///
    /// # Errors
    /// When another master has it or it cannot be written.
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
        match command::lock(&file, command::ENDS_WITHIN) {
            Ok(true) => Ok(Lock { _file: file }),
            Ok(false) => Err(Error::Taken(self.path.clone())),
            Err(error) => Err(io("lock")(error)),
        }
    }

    /// The certificates; authorities that are not there yet are made.
    ///
    /// # Errors
    /// When they cannot be made or used.
    pub fn open_pki(&self, now: Timestamp) -> Result<Pki, Error> {
        Ok(Pki::open(&self.pki(), now)?)
    }

    /// The certificates, none of which is made.
    ///
    /// # Errors
    /// When they are not there or cannot be used.
    pub fn read_pki(&self, now: Timestamp) -> Result<Pki, Error> {
        Ok(Pki::read(&self.pki(), now)?)
    }

    /// Writes down where nodes and people find this master.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn advertise(&self, address: SocketAddr) -> Result<(), Error> {
        let path = self.path.join(ADDRESS);
        let line = format!("{address}\n");
        if files::read(&path)?.as_deref() != Some(line.as_bytes()) {
            files::write(&path, line.as_bytes(), files::PUBLIC)?;
        }
        Ok(())
    }

    /// What tells this master from all others of its store, made once: one that starts again is still the same.
    ///
    /// A file that is damaged costs no more than the time until the leases of before are over, so that a new one is made.
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
            tracing::warn!(%file, fault, "the id of this master cannot be read; it gets a new one");
        }
        if let Err(error) = files::write(&path, format!("{id}\n").as_bytes(), files::SECRET) {
            tracing::warn!(%file, %error, "the id of this master cannot be kept: the next start makes another one");
        }
        id
    }

    /// Makes `admin.kubeconfig` and `bootstrap.kubeconfig`, unless those that are there still hold for this server; says which it made.
    ///
    /// Where nobody becomes a node the latter is taken away.
    ///
    /// # Errors
    /// When the `admin.kubeconfig` that is there is damaged, which people may have added to, or a file cannot be read or written.
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
                    && own.authority == pki.trusted_pem()
                    && pki.is_good_client(own.credentials.certificates.as_bytes(), now)
            };
            if read.is_some_and(is_good) {
                return Ok(false);
            }
        }
        let text = kubeconfig(pki, server, user, &[group.to_owned()], now)?;
        files::write(&path, text.as_bytes(), files::SECRET)?;
        Ok(true)
    }

    /// A kubeconfig with a new certificate for that user.
    ///
    /// # Errors
    /// When no master has run here yet, or its files cannot be used.
    pub fn kubeconfig(&self, user: &str, groups: &[String], now: Timestamp) -> Result<String, Error> {
        if user.is_empty() {
            return Err(Error::NoUser);
        }
        let pki = Pki::read(&self.pki(), now)?;
        kubeconfig(&pki, format!("https://{}", self.advertised()?), user, groups, now)
    }

    /// `https://HOST:PORT#sha256:<hash of the root's public key>`.
    ///
    /// # Errors
    /// As [`Self::kubeconfig`].
    pub fn join_string(&self, now: Timestamp) -> Result<String, Error> {
        let pki = Pki::read(&self.pki(), now)?;
        Ok(format!("https://{}#sha256:{}", self.advertised()?, pki.root_hash()))
    }

    /// The file of a host outside the cluster that tells the bootstrap document under these names.
    ///
    /// # Errors
    /// As [`Self::kubeconfig`].
    pub fn cluster_info(&self, names: &Names, now: Timestamp) -> Result<String, Error> {
        let pki = Pki::read(&self.pki(), now)?;
        let servers = vec![format!("https://{}", self.advertised()?)];
        let info = ClusterInfo { servers, authority: pki.root_pem(), retiring: pki.retiring_pem() };
        Ok(Discovery::text(&info, &pki.elsewhere(names, now)?))
    }

    /// Where nodes and people were told that this master is.
    ///
    /// # Errors
    /// When no master has run here yet, or the file cannot be read.
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
    Ok(Kubeconfig { server, authority: pki.trusted_pem(), user: user.to_owned(), credentials }.text())
}

#[cfg(test)]
mod tests;
