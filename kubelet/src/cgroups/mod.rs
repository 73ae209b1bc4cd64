//! Cgroups per pod and per QoS class. With them, CPU requests count between pods, and the limits of a pod apply to
//! the whole pod.
//!
//! The layout is that of the stock kubelet: `kubepods/pod<uid>` for Guaranteed pods, `kubepods/burstable/pod<uid>`
//! and `kubepods/besteffort/pod<uid>` for the others. On cgroup v1 and v2 the kubelet writes the kernel's files,
//! and the engine adds the containers. With the systemd driver, systemd sets the limits ([`Slices`]). Without
//! permission (rootless, remote engine), pods have no cgroups.

mod burstable;
mod slices;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use self::burstable::Burstable;
use crate::observed::PodUid;
use crate::runtime::spec::Resources;
pub use slices::Slices;

/// Mount point of the cgroup file systems.
const ROOT: &str = "/sys/fs/cgroup";

/// The parent cgroup of all pods.
const KUBEPODS: &str = "kubepods";

/// The smallest value that the kernel accepts. Pods without a CPU request have it.
const MIN_CPU_SHARES: i64 = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct PodCgroup {
    /// The path that the engine gets: absolute in the cgroup tree (`/kubepods/burstable/pod<uid>`), or a systemd
    /// slice.
    pub path: String,
    /// Whether the CPU request counts towards the Burstable class.
    pub burstable: bool,
    /// The sums over the containers. There is a limit only if every container has one.
    pub resources: Resources,
}

/// The cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

/// The cgroups of this node's pods.
pub struct Cgroups {
    root: PathBuf,
    version: Version,
    burstable: Burstable,
}

impl Cgroups {
    /// The cgroups of this machine. `None` if the process may not create any.
    pub fn of_machine() -> Option<Self> {
        Self::at(Path::new(ROOT))
    }

    /// The cgroups below `root`, which has the layout of the kernel's mount point.
    fn at(root: &Path) -> Option<Self> {
        let version = if root.join("cgroup.controllers").exists() { Version::V2 } else { Version::V1 };
        let cgroups = Self { root: root.to_owned(), version, burstable: Burstable::default() };
        match cgroups.make(KUBEPODS) {
            Ok(()) => Some(cgroups),
            Err(error) => {
                tracing::info!(%error, "cannot create cgroups: pods get no cgroup of their own");
                None
            }
        }
    }

    /// Creates or updates a pod's cgroup. Idempotent. It blocks for a few file writes.
    ///
    /// # Errors
    /// If the kernel refuses. The message names the file.
    pub fn apply(&self, uid: &PodUid, pod: &PodCgroup) -> io::Result<()> {
        let path = pod.path.trim_start_matches('/');
        for (at, _) in path.match_indices('/') {
            self.make(&path[..at])?;
        }
        self.make(path)?;
        self.limit(path, &pod.resources)?;
        if pod.burstable {
            self.set_shares(uid, Some(pod.resources.cpu_shares.unwrap_or(MIN_CPU_SHARES)))?;
        }
        if let Some(class) = path.strip_suffix(&format!("/pod{uid}"))
            && class.ends_with("besteffort")
        {
            self.limit(class, &Resources { cpu_shares: Some(MIN_CPU_SHARES), ..Resources::default() })?;
        }
        Ok(())
    }

    /// Removes the cgroup of a pod whose containers are gone, as far as possible. Idempotent.
    ///
    /// # Errors
    /// If a process still runs in it. The message names the first such directory.
    pub fn release(&self, uid: &PodUid) -> io::Result<()> {
        let mut released = self.set_shares(uid, None);
        for class in ["", "/burstable", "/besteffort"] {
            let path = format!("{KUBEPODS}{class}/pod{uid}");
            for directory in self.found(&path) {
                match std::fs::remove_dir(&directory) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        released = released.and(Err(named(&directory, &error)));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        released
    }

    /// Sets or removes the CPU shares of a Burstable pod, and writes the sum of the class.
    fn set_shares(&self, uid: &PodUid, shares: Option<i64>) -> io::Result<()> {
        let class = format!("{KUBEPODS}/burstable");
        self.burstable.set_shares(uid, shares, |sum| {
            self.limit(&class, &Resources { cpu_shares: Some(sum), ..Resources::default() })
        })
    }

    /// The directories of a cgroup: one per controller in v1, one in v2.
    fn directories(&self, path: &str) -> Vec<PathBuf> {
        match self.version {
            Version::V1 => {
                ["cpu", "memory", "pids"].map(|controller| self.root.join(controller).join(path)).into()
            }
            Version::V2 => vec![self.root.join(path)],
        }
    }

    /// All existing directories of a cgroup. The engine's runtime also creates it for controllers that the kubelet does
    /// not use.
    fn found(&self, path: &str) -> Vec<PathBuf> {
        let trees = match self.version {
            Version::V1 => std::fs::read_dir(&self.root)
                .into_iter()
                .flatten()
                .flatten()
                .map(|tree| tree.path())
                .collect(),
            Version::V2 => vec![self.root.clone()],
        };
        trees.into_iter().map(|tree| tree.join(path)).filter(|directory| directory.is_dir()).collect()
    }

    fn make(&self, path: &str) -> io::Result<()> {
        for directory in self.directories(path) {
            match std::fs::create_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(&directory, &error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        if self.version == Version::V2
            && let Some(above) = self.root.join(path).parent()
        {
            write(&above.join("cgroup.subtree_control"), "+cpu +memory +pids")?;
        }
        Ok(())
    }

    fn limit(&self, path: &str, resources: &Resources) -> io::Result<()> {
        let file = |controller: &str, name: &str| match self.version {
            Version::V1 => self.root.join(controller).join(path).join(name),
            Version::V2 => self.root.join(path).join(name),
        };
        let or_none =
            |limit: Option<i64>, none: &str| limit.map_or(none.to_owned(), |limit| limit.to_string());
        let shares = resources.cpu_shares.unwrap_or(MIN_CPU_SHARES);
        match self.version {
            Version::V1 => {
                write(&file("cpu", "cpu.shares"), &shares.to_string())?;
                if let Some(period) = resources.cpu_period {
                    write(&file("cpu", "cpu.cfs_period_us"), &period.to_string())?;
                }
                write(&file("cpu", "cpu.cfs_quota_us"), &or_none(resources.cpu_quota, "-1"))?;
                write(&file("memory", "memory.limit_in_bytes"), &or_none(resources.memory_bytes, "-1"))?;
                write(&file("pids", "pids.max"), &or_none(resources.pids, "max"))
            }
            Version::V2 => {
                write(&file("", "cpu.weight"), &weight(shares).to_string())?;
                let period = resources.cpu_period.unwrap_or(100_000);
                write(&file("", "cpu.max"), &format!("{} {period}", or_none(resources.cpu_quota, "max")))?;
                write(&file("", "memory.max"), &or_none(resources.memory_bytes, "max"))?;
                write(&file("", "pids.max"), &or_none(resources.pids, "max"))
            }
        }
    }
}

/// Converts CPU shares of cgroup v1 (2 to 262144) to a weight of v2 (1 to 10000), with the linear formula of runc.
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

fn write(file: &Path, value: &str) -> io::Result<()> {
    std::fs::write(file, value).map_err(|error| named(file, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
