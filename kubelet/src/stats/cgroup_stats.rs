//! Reads CPU and memory statistics of a cgroup, v1 or v2, and of the whole machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ticks per second in `/proc/stat` (`USER_HZ`); 100 on all current machines.
const TICKS_A_SECOND: u64 = 100;
const NANOSECONDS: u64 = 1_000_000_000;

/// Where the kernel's file systems are mounted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The proc file system, `/proc`.
    pub proc: PathBuf,
    /// The cgroup file systems, `/sys/fs/cgroup`.
    pub cgroups: PathBuf,
}

impl Default for Kernel {
    /// The mount points on this machine.
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), cgroups: PathBuf::from("/sys/fs/cgroup") }
    }
}

/// Usage counters of a cgroup or of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupStats {
    /// Cumulative CPU time in nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Memory usage in bytes, including the page cache.
    pub usage_bytes: u64,
    /// Working set in bytes: the usage without the inactive page cache.
    pub working_set_bytes: u64,
    /// Anonymous memory in bytes.
    pub rss_bytes: u64,
    pub page_faults: u64,
    /// Number of page faults that read from a disk.
    pub major_page_faults: u64,
}

impl CgroupStats {
    /// The sum of two sets of counters.
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

/// The cgroup directories of a process for CPU and memory. In v2 they are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPath {
    cpu: PathBuf,
    memory: PathBuf,
    is_v1: bool,
}

impl CgroupPath {
    /// The cgroup of a container's first process.
    ///
    /// # Errors
    /// If the process does not exist or is not in a cgroup of that container, for example because the engine is on
    /// another machine.
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

    /// Parses `/proc/<pid>/cgroup`, with lines such as `4:memory:/kubepods/...` or `0::/kubepods/...`.
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

    /// The pod's own cgroup, if the parent cgroup has the pod's UID in its name.
    pub fn pod(&self, uid: &str) -> Option<Self> {
        // In slice names, systemd uses dashes as separators, so UIDs have underscores.
        let names = [uid.to_owned(), uid.replace('-', "_")];
        let above = |path: &Path| {
            let above = path.parent()?;
            let name = above.file_name()?.to_string_lossy();
            names.iter().any(|uid| name.contains(uid)).then(|| above.to_owned())
        };
        Some(Self { cpu: above(&self.cpu)?, memory: above(&self.memory)?, is_v1: self.is_v1 })
    }

    /// Number of processes in the cgroup. 0 if the cgroup is gone.
    pub fn processes(&self) -> u64 {
        let text = fs::read_to_string(self.memory.join("cgroup.procs")).unwrap_or_default();
        u64::try_from(text.lines().count()).unwrap_or_default()
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// If a file cannot be read. `NotFound` if the cgroup is gone.
    pub fn read_stats(&self) -> io::Result<CgroupStats> {
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
        Ok(CgroupStats {
            cpu_nanoseconds,
            usage_bytes: usage,
            working_set_bytes: usage.saturating_sub(memory(&format!("{prefix}inactive_file"))),
            rss_bytes: memory(rss),
            page_faults: memory(&format!("{prefix}pgfault")),
            major_page_faults: memory(&format!("{prefix}pgmajfault")),
        })
    }
}

/// Counters of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Usage of all processes.
    pub counted: CgroupStats,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Boot time, in seconds since 1970.
    pub booted_at: u64,
}

impl Machine {
    /// Reads the counters.
    ///
    /// # Errors
    /// If a file of `/proc` cannot be read.
    pub fn read(kernel: &Kernel) -> io::Result<Self> {
        let text = |name: &str| fs::read_to_string(kernel.proc.join(name));
        let (stat, memory, pages) = (text("stat")?, text("meminfo")?, text("vmstat")?);
        let bytes = |name: &str| field(&memory, name).unwrap_or_default() * 1024;
        let page = |name: &str| field(&pages, name).unwrap_or_default();
        let usage_bytes = bytes("MemTotal:").saturating_sub(bytes("MemFree:"));
        let counted = CgroupStats {
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

/// Busy CPU ticks: all fields of the first line except `idle` and `iowait`, the fourth and fifth. The first two
/// fields include guest time.
fn busy_ticks(stat: &str) -> u64 {
    let first = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).take(8).enumerate();
    ticks.filter(|(at, _)| !matches!(at, 3 | 4)).filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

/// The number after a name at the start of a line.
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
        .map_err(|_| io::Error::other(format!("{}: {:?} is not a number", file.display(), text.trim())))
}

#[cfg(test)]
mod tests;
