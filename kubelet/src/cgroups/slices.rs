//! Slices of systemd: under its driver the engine has systemd make a pod's cgroup, and here systemd is told what that is to
//! hold the pod to. It writes the kernel's files itself and would undo what anybody else writes there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::{LEAST_SHARES, PodCgroup, weight};
use crate::observed::PodUid;
use crate::runtime::spec::Resources;

/// There where systemd runs the machine.
const RUNS_HERE: &str = "/run/systemd/system";
/// What stands between a class and its pod in the name of a pod's slice.
const POD: &str = "-pod";

/// The slices of this node's pods.
pub struct Slices {
    systemctl: PathBuf,
    /// Shares of the Burstable pods, whose sum their class gets.
    burstable: Mutex<BTreeMap<PodUid, i64>>,
}

impl Slices {
    /// The slices of this machine, `None` where systemd does not run it or would not listen to this process.
    pub fn of_machine() -> Option<Self> {
        let is_heard = Path::new(RUNS_HERE).is_dir() && rustix::process::geteuid().is_root();
        is_heard.then(|| Self::by(Path::new("systemctl")))
    }

    fn by(systemctl: &Path) -> Self {
        Self { systemctl: systemctl.to_owned(), burstable: Mutex::default() }
    }

    /// Tells systemd what to hold the pod's slice to, before the engine has it made. Safe to repeat; blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// systemd refuses; the message is its own.
    pub fn hold(&self, uid: &PodUid, pod: &PodCgroup) -> io::Result<()> {
        self.set(&pod.path, &properties(&pod.resources))?;
        let Some(class) = class(&pod.path) else { return Ok(()) };
        if pod.burstable {
            let own = pod.resources.cpu_shares.unwrap_or(LEAST_SHARES);
            return self.weigh(&class, |shares| shares.insert(uid.clone(), own));
        }
        if class.ends_with("-besteffort.slice") {
            return self.set(&class, &[format!("CPUWeight={}", weight(LEAST_SHARES))]);
        }
        Ok(())
    }

    /// Forgets what was said of the slice of a pod whose containers are gone. Safe to repeat.
    ///
    /// # Errors
    /// systemd refuses.
    pub fn release(&self, uid: &PodUid, path: &str) -> io::Result<()> {
        self.run(&["stop", path])?;
        self.run(&["revert", path])?;
        match class(path) {
            Some(class) => self.weigh(&class, |shares| shares.remove(uid)),
            None => Ok(()),
        }
    }

    /// Changes the shares of the Burstable pods and gives their class the sum.
    fn weigh(
        &self,
        class: &str,
        change: impl FnOnce(&mut BTreeMap<PodUid, i64>) -> Option<i64>,
    ) -> io::Result<()> {
        let (before, sum) = {
            let mut shares = self.burstable.lock().unwrap_or_else(PoisonError::into_inner);
            let before: i64 = shares.values().sum();
            change(&mut shares);
            (before, shares.values().sum::<i64>())
        };
        if before == sum {
            return Ok(());
        }
        self.set(class, &[format!("CPUWeight={}", weight(sum.max(LEAST_SHARES)))])
    }

    fn set(&self, slice: &str, properties: &[String]) -> io::Result<()> {
        let mut arguments = vec!["set-property", "--runtime", slice];
        arguments.extend(properties.iter().map(String::as_str));
        self.run(&arguments)
    }

    fn run(&self, arguments: &[&str]) -> io::Result<()> {
        let mut command = Command::new(&self.systemctl);
        let done = command.args(arguments).stdin(Stdio::null()).output();
        let done =
            done.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.systemctl.display())))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(io::Error::other(format!("systemctl {}: {}", arguments.join(" "), said.trim())))
    }
}

/// The slice that a pod's slice lies in; `None` for what is no pod's.
fn class(slice: &str) -> Option<String> {
    slice.rsplit_once(POD).map(|(class, _)| format!("{class}.slice"))
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
