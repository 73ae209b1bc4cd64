//! Slices of systemd: under its driver the engine has systemd make a pod's cgroup, and here systemd is told what that is to
//! hold the pod to. It writes the kernel's files itself and would undo what anybody else writes there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::burstable::Burstable;
use super::{LEAST_SHARES, PodCgroup, weight};
use crate::observed::PodUid;
use crate::runtime::spec::Resources;

/// There where systemd runs the machine.
const RUNS_HERE: &str = "/run/systemd/system";
/// What stands between a class and its pod in the name of a pod's slice.
const POD: &str = "-pod";
/// What the names of the classes end in: Guaranteed pods lie in the slice of all pods.
const CLASSES: [&str; 3] = ["", BURSTABLE, BEST_EFFORT];
const BURSTABLE: &str = "-burstable";
const BEST_EFFORT: &str = "-besteffort";
/// How systemctl ends when the unit is not there, `EXIT_NOTINSTALLED` of systemd.
const NOT_THERE: i32 = 5;

/// The slices of this node's pods.
pub struct Slices {
    systemctl: PathBuf,
    /// The slice of each pod that this kubelet has told of.
    held: Mutex<BTreeMap<PodUid, String>>,
    burstable: Burstable,
}

impl Slices {
    /// The slices of this machine, `None` where systemd does not run it or would not listen to this process.
    pub fn of_machine() -> Option<Self> {
        let is_heard = Path::new(RUNS_HERE).is_dir() && rustix::process::geteuid().is_root();
        is_heard.then(|| Self::by(Path::new("systemctl")))
    }

    fn by(systemctl: &Path) -> Self {
        Self { systemctl: systemctl.to_owned(), held: Mutex::default(), burstable: Burstable::default() }
    }

    /// Tells systemd what to hold the pod's slice to, before the engine has it made. Safe to repeat; blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// systemd refuses; the message is its own.
    pub fn hold(&self, uid: &PodUid, pod: &PodCgroup) -> io::Result<()> {
        self.held().insert(uid.clone(), pod.path.clone());
        self.set(&pod.path, &properties(&pod.resources))?;
        let Some(names) = Names::of(&pod.path) else { return Ok(()) };
        if pod.burstable {
            return self.weigh(&names, uid, Some(pod.resources.cpu_shares.unwrap_or(LEAST_SHARES)));
        }
        if names.class == BEST_EFFORT {
            return self.set(&names.class(BEST_EFFORT), &[format!("CPUWeight={}", weight(LEAST_SHARES))]);
        }
        Ok(())
    }

    /// Forgets what was said of the slice of a pod whose containers are gone: what this kubelet has said or, when another
    /// did, what may have been said of it in any class, since nobody knows for sure which one it was in. Does all it can. Safe
    /// to repeat.
    ///
    /// # Errors
    /// systemd refuses; the message is what it said first.
    pub fn release(&self, uid: &PodUid, path: &str) -> io::Result<()> {
        let held = self.held().remove(uid);
        let names = Names::of(held.as_deref().unwrap_or(path));
        let mut released = names.as_ref().map_or(Ok(()), |names| self.weigh(names, uid, None));
        let slices = match (&held, &names) {
            (None, Some(names)) => CLASSES.map(|class| names.pod(class)).to_vec(),
            (Some(slice), _) => vec![slice.clone()],
            (None, None) => vec![path.to_owned()],
        };
        for slice in &slices {
            for verb in ["stop", "revert"] {
                // Each step is taken, whatever came of those before.
                released = released.and(self.run(&[verb, slice], Some(NOT_THERE)));
            }
        }
        released
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<PodUid, String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes or forgets the shares of a Burstable pod and gives the class their sum.
    fn weigh(&self, names: &Names<'_>, uid: &PodUid, shares: Option<i64>) -> io::Result<()> {
        self.burstable.weigh(uid, shares, |sum| {
            self.set(&names.class(BURSTABLE), &[format!("CPUWeight={}", weight(sum))])
        })
    }

    fn set(&self, slice: &str, properties: &[String]) -> io::Result<()> {
        let mut arguments = vec!["set-property", "--runtime", slice];
        arguments.extend(properties.iter().map(String::as_str));
        self.run(&arguments, None)
    }

    /// Says it to systemd, which may also answer with that code.
    fn run(&self, arguments: &[&str], also_fine: Option<i32>) -> io::Result<()> {
        let mut command = Command::new(&self.systemctl);
        let done = command.args(arguments).stdin(Stdio::null()).output();
        let done =
            done.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.systemctl.display())))?;
        if done.status.success() || also_fine.is_some() && done.status.code() == also_fine {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(io::Error::other(format!("systemctl {}: {}", arguments.join(" "), said.trim())))
    }
}

/// The parts of the name of a pod's slice.
struct Names<'a> {
    /// The slice of all pods.
    all: &'a str,
    /// One of [`CLASSES`].
    class: &'static str,
    /// What follows [`POD`].
    pod: &'a str,
}

impl<'a> Names<'a> {
    /// `None` for what is no pod's.
    fn of(slice: &'a str) -> Option<Self> {
        let (all, pod) = slice.rsplit_once(POD)?;
        let part = |class| Some(Self { all: all.strip_suffix(class)?, class, pod });
        part(BURSTABLE).or_else(|| part(BEST_EFFORT)).or_else(|| part(""))
    }

    /// The slice of a class.
    fn class(&self, class: &str) -> String {
        format!("{}{class}.slice", self.all)
    }

    /// The pod's slice, were it of that class.
    fn pod(&self, class: &str) -> String {
        format!("{}{class}{POD}{}", self.all, self.pod)
    }
}

/// What systemd calls the limits.
fn properties(resources: &Resources) -> Vec<String> {
    let or = |limit: Option<i64>, none: &str| limit.map_or(none.to_owned(), |limit| limit.to_string());
    let quota = resources.cpu_quota.zip(resources.cpu_period).filter(|(_, period)| *period > 0);
    // Percent of one core, rounded up: less than was asked for would be wrong.
    let quota =
        quota.map_or(String::new(), |(quota, period)| format!("{}%", (quota * 100 + period - 1) / period));
    vec![
        format!("CPUWeight={}", weight(resources.cpu_shares.unwrap_or(LEAST_SHARES))),
        format!("CPUQuota={quota}"),
        format!("MemoryMax={}", or(resources.memory_bytes, "infinity")),
        format!("TasksMax={}", or(resources.pids, "infinity")),
    ]
}

#[cfg(test)]
mod tests;
