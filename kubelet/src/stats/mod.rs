//! CPU and memory usage of pods, containers and the machine. It is read from the kernel, without requests to the
//! engine.

mod cgroup_stats;
pub mod resource;
pub mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk;
use crate::observed::{Pod, PodUid, State, Timestamp};
pub use cgroup_stats::CgroupStats;
use cgroup_stats::{CgroupPath, Kernel, Machine};

/// Shortest time in seconds between two samples from which a CPU rate is computed.
const MIN_SAMPLE_SECONDS: i64 = 1;

/// Lists the observed pods.
pub type PodLister = Box<dyn Fn() -> Vec<(PodUid, Arc<Pod>)> + Send + Sync>;

/// Reads statistics of the resource usage.
pub struct StatsProvider {
    kernel: Kernel,
    look: PodLister,
    /// The node's name.
    pub node: String,
    /// A directory on the disk to which pods write.
    disk: PathBuf,
    /// The last CPU sample of each existing cgroup.
    last: Mutex<BTreeMap<String, CpuSample>>,
}

/// The CPU time at one moment, and the rate before it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuSample {
    at: Timestamp,
    cpu_nanoseconds: u64,
    nanocores: Option<u64>,
}

/// Usage at one moment.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// When the usage was measured.
    pub at: Timestamp,
    /// Usage of the machine.
    pub node: NodeUsage,
    /// Usage of each pod with a running container, sorted by namespace and name.
    pub pods: Vec<PodUsage>,
    /// Whether the usage of a running container could not be read.
    pub is_incomplete: bool,
}

/// Usage of the machine.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    /// CPU and memory.
    pub used: ResourceUsage,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Boot time.
    pub started_at: Timestamp,
    /// The file system of the kubelet's root directory.
    pub disk: Option<DiskUsage>,
}

/// Usage of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub capacity_bytes: u64,
    /// Space that programs can use, in bytes.
    pub available_bytes: u64,
    /// Used space in bytes.
    pub used_bytes: u64,
    /// Total number of inodes.
    pub inodes: u64,
    pub inodes_free: u64,
}

#[derive(Clone, Debug, Default)]
pub struct PodUsage {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// When the pod's sandbox started.
    pub started_at: Timestamp,
    /// CPU and memory of the whole pod.
    pub used: ResourceUsage,
    /// The running containers of the pod.
    pub containers: Vec<ContainerUsage>,
}

#[derive(Clone, Debug, Default)]
pub struct ContainerUsage {
    /// The container's name.
    pub name: String,
    /// When the container started.
    pub started_at: Timestamp,
    /// CPU and memory.
    pub used: ResourceUsage,
    /// Number of processes.
    pub processes: u64,
}

/// CPU and memory usage, with the CPU rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The counters of the cgroup.
    pub counted: CgroupStats,
    /// CPU rate in billionths of a core since the last sample, or `None` for the first sample.
    pub nanocores: Option<u64>,
}

impl StatsProvider {
    /// Creates a provider for the pods that `look` lists on this machine, and for the file system of `disk`.
    pub fn new(node: &str, disk: &Path, look: PodLister) -> Arc<Self> {
        let (kernel, last) = (Kernel::default(), Mutex::default());
        Arc::new(Self { kernel, look, node: node.to_owned(), disk: disk.to_owned(), last })
    }

    /// Reads the current usage.
    ///
    /// # Errors
    /// If the statistics of the machine cannot be read.
    pub async fn take(self: &Arc<Self>, now: Timestamp) -> io::Result<Usage> {
        let meter = self.clone();
        disk::run(move || meter.read(now)).await
    }

    fn read(&self, now: Timestamp) -> io::Result<Usage> {
        let machine = Machine::read(&self.kernel)?;
        let mut usage = Usage { at: now, ..Usage::default() };
        let mut paces = CpuSamples {
            now,
            before: self.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            after: BTreeMap::new(),
        };
        usage.node = NodeUsage {
            used: paces.used("/", machine.counted),
            memory_bytes: machine.memory_bytes,
            started_at: i64::try_from(machine.booted_at)
                .ok()
                .and_then(|seconds| Timestamp::from_second(seconds).ok())
                .unwrap_or_default(),
            disk: of_disk(&self.disk),
        };
        for (uid, pod) in (self.look)() {
            match self.of_pod(&uid, &pod, &mut paces) {
                Ok(Some(pod)) => usage.pods.push(pod),
                Ok(None) => {}
                Err(error) => {
                    usage.is_incomplete = true;
                    tracing::debug!(pod = %uid, %error, "cannot read the usage of a pod");
                }
            }
        }
        usage.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = paces.after;
        Ok(usage)
    }

    /// Usage of a pod, or `None` if no container runs.
    fn of_pod(&self, uid: &PodUid, pod: &Pod, paces: &mut CpuSamples) -> io::Result<Option<PodUsage>> {
        let mut usage = PodUsage {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.to_string(),
            ..PodUsage::default()
        };
        let (mut sum, mut whole) = (CgroupStats::default(), None);
        for sandbox in &pod.sandboxes {
            let State::Running { started_at, pid } = sandbox.state else { continue };
            let Some((place, counted)) = self.of_container(pid, &sandbox.id)? else { continue };
            usage.started_at = started_at;
            sum = sum.plus(counted);
            whole = whole.or_else(|| place.pod(uid.as_str()));
        }
        for container in &pod.containers {
            let State::Running { started_at, pid } = container.state else { continue };
            let Some((place, counted)) = self.of_container(pid, &container.id)? else { continue };
            sum = sum.plus(counted);
            let used = paces.used(&container.id, counted);
            let (name, processes) = (container.name.clone(), place.processes());
            usage.containers.push(ContainerUsage { name, started_at, used, processes });
        }
        // The pod's own cgroup includes containers that have exited.
        let counted = whole.and_then(|place| place.read_stats().ok()).unwrap_or(sum);
        usage.used = paces.used(uid.as_str(), counted);
        Ok((!usage.containers.is_empty()).then_some(usage))
    }

    /// The cgroup of a container with its counters, or `None` if the container has just exited.
    fn of_container(&self, pid: u32, id: &str) -> io::Result<Option<(CgroupPath, CgroupStats)>> {
        let counted = CgroupPath::of(&self.kernel, pid, id).and_then(|place| {
            let counted = place.read_stats()?;
            Ok((place, counted))
        });
        match counted {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The process exited while its file was read.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The CPU samples of the last reading and of this one.
struct CpuSamples {
    now: Timestamp,
    before: BTreeMap<String, CpuSample>,
    after: BTreeMap<String, CpuSample>,
}

impl CpuSamples {
    fn used(&mut self, key: &str, counted: CgroupStats) -> ResourceUsage {
        let sample = match self.before.get(key) {
            Some(last) => last.next(self.now, counted.cpu_nanoseconds),
            None => CpuSample { at: self.now, cpu_nanoseconds: counted.cpu_nanoseconds, nanocores: None },
        };
        self.after.insert(key.to_owned(), sample);
        ResourceUsage { counted, nanocores: sample.nanocores }
    }
}

impl CpuSample {
    /// The sample at a later time. It stays unchanged if less than [`MIN_SAMPLE_SECONDS`] has passed.
    fn next(self, now: Timestamp, cpu_nanoseconds: u64) -> Self {
        let passed = now.duration_since(self.at);
        if passed.as_secs() < MIN_SAMPLE_SECONDS {
            return self;
        }
        let used = u128::from(cpu_nanoseconds.saturating_sub(self.cpu_nanoseconds)) * 1_000_000_000;
        let nanocores = u128::try_from(passed.as_nanos()).ok().and_then(|passed| used.checked_div(passed));
        let nanocores = nanocores.and_then(|nanocores| u64::try_from(nanocores).ok());
        Self { at: now, cpu_nanoseconds, nanocores }
    }
}

fn of_disk(directory: &Path) -> Option<DiskUsage> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(DiskUsage {
        capacity_bytes: bytes(stat.f_blocks),
        available_bytes: bytes(stat.f_bavail),
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
    })
}
