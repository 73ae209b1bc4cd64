//! systemd slices. With the systemd driver, systemd creates the cgroups of pods, and the kubelet sets their limits
//! through systemd. If it wrote limits to the kernel's files, systemd would revert them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::burstable::Burstable;
use super::{MIN_CPU_SHARES, PodCgroup, weight};
use crate::observed::PodUid;
use crate::runtime::spec::Resources;

/// A directory that exists only if systemd runs the machine.
const SYSTEMD_DIR: &str = "/run/systemd/system";
/// The separator between class and pod in a slice name.
const POD: &str = "-pod";
/// Suffixes of the class slices. Guaranteed pods are in the slice of all pods.
const CLASSES: [&str; 3] = ["", BURSTABLE, BEST_EFFORT];
const BURSTABLE: &str = "-burstable";
const BEST_EFFORT: &str = "-besteffort";
/// The exit code of systemctl for a missing unit, `EXIT_NOTINSTALLED` of systemd.
const NOT_THERE: i32 = 5;

/// The slices of this node's pods.
pub struct Slices {
    systemctl: PathBuf,
    /// The slices whose properties this kubelet has set.
    applied: Mutex<BTreeMap<PodUid, String>>,
    burstable: Burstable,
}

impl Slices {
    /// The slices of this machine. `None` without systemd or without root.
    pub fn of_machine() -> Option<Self> {
        let has_systemd = Path::new(SYSTEMD_DIR).is_dir() && rustix::process::geteuid().is_root();
        has_systemd.then(|| Self::by(Path::new("systemctl")))
    }

    fn by(systemctl: &Path) -> Self {
        Self { systemctl: systemctl.to_owned(), applied: Mutex::default(), burstable: Burstable::default() }
    }

    /// Sets the limits of a pod's slice before the engine creates the slice. Idempotent. It blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// If systemd refuses. The message is that of systemd.
    pub fn apply(&self, uid: &PodUid, pod: &PodCgroup) -> io::Result<()> {
        self.applied().insert(uid.clone(), pod.path.clone());
        self.set(&pod.path, &properties(&pod.resources))?;
        let Some(names) = Names::of(&pod.path) else { return Ok(()) };
        if pod.burstable {
            return self.set_shares(&names, uid, Some(pod.resources.cpu_shares.unwrap_or(MIN_CPU_SHARES)));
        }
        if names.class == BEST_EFFORT {
            return self.set(&names.class(BEST_EFFORT), &[format!("CPUWeight={}", weight(MIN_CPU_SHARES))]);
        }
        Ok(())
    }

    /// Reverts the properties of a removed pod's slice. If an earlier kubelet set them, the pod's class is unknown,
    /// so its slices in all classes are reverted. Runs all commands even after an error. Idempotent.
    ///
    /// # Errors
    /// If systemd refuses. The message is its first error.
    pub fn release(&self, uid: &PodUid, path: &str) -> io::Result<()> {
        let applied = self.applied().remove(uid);
        let names = Names::of(applied.as_deref().unwrap_or(path));
        let mut released = names.as_ref().map_or(Ok(()), |names| self.set_shares(names, uid, None));
        let slices = match (&applied, &names) {
            (None, Some(names)) => CLASSES.map(|class| names.pod(class)).to_vec(),
            (Some(slice), _) => vec![slice.clone()],
            (None, None) => vec![path.to_owned()],
        };
        for slice in &slices {
            for verb in ["stop", "revert"] {
                // All commands run, whatever the result of earlier ones.
                released = released.and(self.run(&[verb, slice], Some(NOT_THERE)));
            }
        }
        released
    }

    fn applied(&self) -> MutexGuard<'_, BTreeMap<PodUid, String>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or removes the CPU shares of a Burstable pod, and writes the sum of the class.
    fn set_shares(&self, names: &Names<'_>, uid: &PodUid, shares: Option<i64>) -> io::Result<()> {
        self.burstable.set_shares(uid, shares, |sum| {
            self.set(&names.class(BURSTABLE), &[format!("CPUWeight={}", weight(sum))])
        })
    }

    fn set(&self, slice: &str, properties: &[String]) -> io::Result<()> {
        let mut arguments = vec!["set-property", "--runtime", slice];
        arguments.extend(properties.iter().map(String::as_str));
        self.run(&arguments, None)
    }

    /// Runs systemctl. The exit code `also_fine` counts as success too.
    fn run(&self, arguments: &[&str], also_fine: Option<i32>) -> io::Result<()> {
        let mut command = Command::new(&self.systemctl);
        let done = command.args(arguments).stdin(Stdio::null()).output();
        let done =
            done.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.systemctl.display())))?;
        if done.status.success() || also_fine.is_some() && done.status.code() == also_fine {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&done.stderr);
        Err(io::Error::other(format!("systemctl {}: {}", arguments.join(" "), stderr.trim())))
    }
}

/// The parts of a pod's slice name.
struct Names<'a> {
    /// The slice of all pods.
    all: &'a str,
    /// One of [`CLASSES`].
    class: &'static str,
    /// The part after [`POD`].
    pod: &'a str,
}

impl<'a> Names<'a> {
    /// Parses a slice name. `None` if it is not the slice of a pod.
    fn of(slice: &'a str) -> Option<Self> {
        let (all, pod) = slice.rsplit_once(POD)?;
        let part = |class| Some(Self { all: all.strip_suffix(class)?, class, pod });
        part(BURSTABLE).or_else(|| part(BEST_EFFORT)).or_else(|| part(""))
    }

    /// The slice of a class.
    fn class(&self, class: &str) -> String {
        format!("{}{class}.slice", self.all)
    }

    /// Returns the slice that the pod has in the given QoS class.
    fn pod(&self, class: &str) -> String {
        format!("{}{class}{POD}{}", self.all, self.pod)
    }
}

/// The limits as systemd properties.
fn properties(resources: &Resources) -> Vec<String> {
    let or = |limit: Option<i64>, none: &str| limit.map_or(none.to_owned(), |limit| limit.to_string());
    let quota = resources.cpu_quota.zip(resources.cpu_period).filter(|(_, period)| *period > 0);
    // Percent of one core, rounded up so that the pod gets at least its limit.
    let quota =
        quota.map_or(String::new(), |(quota, period)| format!("{}%", (quota * 100 + period - 1) / period));
    vec![
        format!("CPUWeight={}", weight(resources.cpu_shares.unwrap_or(MIN_CPU_SHARES))),
        format!("CPUQuota={quota}"),
        format!("MemoryMax={}", or(resources.memory_bytes, "infinity")),
        format!("TasksMax={}", or(resources.pids, "infinity")),
    ]
}

#[cfg(test)]
mod tests;
