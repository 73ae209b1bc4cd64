//! What the kernel has counted of a cgroup and of the whole machine, by the files of either version of cgroups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ticks of `/proc/stat` in a second; the kernel's word to programs on every machine of today.
const TICKS_A_SECOND: u64 = 100;
const NANOSECONDS: u64 = 1_000_000_000;

/// Where the kernel tells of itself.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys/fs/cgroup`.
    pub cgroups: PathBuf,
}

impl Default for Kernel {
    /// This machine's.
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), cgroups: PathBuf::from("/sys/fs/cgroup") }
    }
}

/// What something has used, and uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Processor time since it began, nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Memory with everything that is cached for it.
    pub usage_bytes: u64,
    /// Memory without what is cached and was not used lately: what it would be ended for.
    pub working_set_bytes: u64,
    /// Memory that belongs to no file.
    pub rss_bytes: u64,
    /// Pages that were not there when they were asked for.
    pub page_faults: u64,
    /// Those that had to be read from a disk.
    pub major_page_faults: u64,
}

impl Counted {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_nanoseconds: self.cpu_nanoseconds + other.cpu_nanoseconds,
            usage_bytes: self.usage_bytes + other.usage_bytes,
            working_set_bytes: self.working_set_bytes + other.working_set_bytes,
            rss_bytes: self.rss_bytes + other.rss_bytes,
            page_faults: self.page_faults + other.page_faults,
            major_page_faults: self.major_page_faults + other.major_page_faults,
        }
    }
}

/// Where a process is counted: a directory for its processor time and one for its memory, the same one in version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    cpu: PathBuf,
    memory: PathBuf,
    is_v1: bool,
}

impl Place {
    /// That of the first process of a container.
    ///
    /// # Errors
    /// There is no such process, or it is not in a cgroup of that container: the engine is on another machine.
    pub fn of(kernel: &Kernel, pid: u32, container: &str) -> io::Result<Self> {
        let text = fs::read_to_string(kernel.proc.join(pid.to_string()).join("cgroup"))?;
        let place = Self::read(&kernel.cgroups, &text).filter(|place| {
            let is_its = |path: &Path| path.to_string_lossy().contains(container);
            is_its(&place.cpu) && is_its(&place.memory)
        });
        place.ok_or_else(|| {
            io::Error::other(format!("process {pid} is not in a cgroup of container {container}"))
        })
    }

    /// By the lines of `/proc/<pid>/cgroup`, `4:memory:/kubepods/...` or `0::/kubepods/...`.
    fn read(root: &Path, text: &str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let below = |path: &str| path.trim_start_matches('/').to_owned();
        let (mut cpu, mut memory, mut whole) = (None, None, None);
        for (controllers, path) in lines {
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if has("cpuacct") {
                cpu = Some(root.join("cpuacct").join(below(path)));
            }
            if has("memory") {
                memory = Some(root.join("memory").join(below(path)));
            }
            if controllers.is_empty() {
                whole = Some(root.join(below(path)));
            }
        }
        match (cpu, memory, whole) {
            (Some(cpu), Some(memory), _) => Some(Self { cpu, memory, is_v1: true }),
            (_, _, Some(whole)) => Some(Self { cpu: whole.clone(), memory: whole, is_v1: false }),
            _ => None,
        }
    }

    /// The cgroup of the container's pod, when it has one of its own: the one around it that bears the pod's UID.
    pub fn pod(&self, uid: &str) -> Option<Self> {
        // systemd takes dashes for levels.
        let names = [uid.to_owned(), uid.replace('-', "_")];
        let above = |path: &Path| {
            let above = path.parent()?;
            let name = above.file_name()?.to_string_lossy();
            names.iter().any(|uid| name.contains(uid)).then(|| above.to_owned())
        };
        Some(Self { cpu: above(&self.cpu)?, memory: above(&self.memory)?, is_v1: self.is_v1 })
    }

    /// Reads what is counted there.
    ///
    /// # Errors
    /// A file cannot be read: `NotFound` when the cgroup has gone.
    pub fn count(&self) -> io::Result<Counted> {
        let stat = fs::read_to_string(self.memory.join("memory.stat"))?;
        let memory = |name: &str| field(&stat, name).unwrap_or_default();
        let (usage, cpu_nanoseconds, prefix) = if self.is_v1 {
            (
                number(&self.memory.join("memory.usage_in_bytes"))?,
                number(&self.cpu.join("cpuacct.usage"))?,
                "total_",
            )
        } else {
            let cpu = fs::read_to_string(self.cpu.join("cpu.stat"))?;
            (
                number(&self.memory.join("memory.current"))?,
                field(&cpu, "usage_usec").unwrap_or_default() * 1000,
                "",
            )
        };
        let rss = if self.is_v1 { "total_rss" } else { "anon" };
        Ok(Counted {
            cpu_nanoseconds,
            usage_bytes: usage,
            working_set_bytes: usage.saturating_sub(memory(&format!("{prefix}inactive_file"))),
            rss_bytes: memory(rss),
            page_faults: memory(&format!("{prefix}pgfault")),
            major_page_faults: memory(&format!("{prefix}pgmajfault")),
        })
    }
}

/// What the machine as a whole has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// By all that runs on it.
    pub counted: Counted,
    /// Memory there is.
    pub memory_bytes: u64,
    /// When it was started, seconds since 1970.
    pub booted_at: u64,
}

impl Machine {
    /// Reads it.
    ///
    /// # Errors
    /// A file of `/proc` cannot be read.
    pub fn read(kernel: &Kernel) -> io::Result<Self> {
        let text = |name: &str| fs::read_to_string(kernel.proc.join(name));
        let (stat, memory, pages) = (text("stat")?, text("meminfo")?, text("vmstat")?);
        let bytes = |name: &str| field(&memory, name).unwrap_or_default() * 1024;
        let page = |name: &str| field(&pages, name).unwrap_or_default();
        let usage_bytes = bytes("MemTotal:").saturating_sub(bytes("MemFree:"));
        let counted = Counted {
            cpu_nanoseconds: busy_ticks(&stat) * (NANOSECONDS / TICKS_A_SECOND),
            usage_bytes,
            working_set_bytes: usage_bytes.saturating_sub(bytes("Inactive(file):")),
            rss_bytes: bytes("AnonPages:"),
            page_faults: page("pgfault"),
            major_page_faults: page("pgmajfault"),
        };
        let booted_at = field(&stat, "btime").unwrap_or_default();
        Ok(Self { counted, memory_bytes: bytes("MemTotal:"), booted_at })
    }
}

/// Ticks in which the processors did something: all but those of `idle` and `iowait`, the fourth and fifth of the first line.
/// What guests took is part of the first two.
fn busy_ticks(stat: &str) -> u64 {
    let first = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).take(8).enumerate();
    ticks.filter(|(at, _)| !matches!(at, 3 | 4)).filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

/// The number behind a name, a line each.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

fn number(file: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{}: {:?} is no number", file.display(), text.trim())))
}

#[cfg(test)]
mod tests;
