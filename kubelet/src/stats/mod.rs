//! What pods, their containers and the machine use, as the kernel has counted it: nobody asks the engine.

mod counted;
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
pub use counted::Counted;
use counted::{Kernel, Machine, Place};

/// Two looks nearer to each other than this say nothing of how fast something is used.
const LEAST_BETWEEN: i64 = 1;

/// What is there of every pod.
pub type Look = Box<dyn Fn() -> Vec<(PodUid, Arc<Pod>)> + Send + Sync>;

/// Reads what is used.
pub struct Meter {
    kernel: Kernel,
    look: Look,
    /// The name of the node.
    pub node: String,
    /// A directory on the disk that pods write to.
    disk: PathBuf,
    /// What each cgroup had used when it was looked at last, of those that were there.
    last: Mutex<BTreeMap<String, Pace>>,
}

/// Processor time at one moment, and how fast it was used before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    at: Timestamp,
    cpu_nanoseconds: u64,
    nanocores: Option<u64>,
}

/// What is used at one moment.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// When.
    pub at: Timestamp,
    /// By the machine.
    pub node: NodeUsage,
    /// By every pod that has a container that runs, by namespace and name.
    pub pods: Vec<PodUsage>,
    /// Whether something that runs could not be counted.
    pub is_incomplete: bool,
}

/// What the machine uses.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    /// Processor and memory.
    pub used: Used,
    /// Memory there is.
    pub memory_bytes: u64,
    /// When it was started.
    pub started_at: Timestamp,
    /// The disk of the kubelet's directory.
    pub disk: Option<DiskUsage>,
}

/// How full a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// All of it.
    pub capacity_bytes: u64,
    /// What programs may still have.
    pub available_bytes: u64,
    /// What is taken.
    pub used_bytes: u64,
    /// Files there may be.
    pub inodes: u64,
    /// Files there may still be.
    pub inodes_free: u64,
}

/// What a pod uses.
#[derive(Clone, Debug, Default)]
pub struct PodUsage {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When its sandbox began.
    pub started_at: Timestamp,
    /// All that is in it.
    pub used: Used,
    /// Each container that runs.
    pub containers: Vec<ContainerUsage>,
}

/// What a container uses.
#[derive(Clone, Debug, Default)]
pub struct ContainerUsage {
    /// Its name in the pod.
    pub name: String,
    /// When it began.
    pub started_at: Timestamp,
    /// What it uses.
    pub used: Used,
}

/// What is used, and how fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// What was counted.
    pub counted: Counted,
    /// Billionths of a processor since the look before; `None` at the first.
    pub nanocores: Option<u64>,
}

impl Meter {
    /// Reads of this machine what the pods of a look use, and how full the disk is that a directory lies on.
    pub fn new(node: &str, disk: &Path, look: Look) -> Arc<Self> {
        let (kernel, last) = (Kernel::default(), Mutex::default());
        Arc::new(Self { kernel, look, node: node.to_owned(), disk: disk.to_owned(), last })
    }

    /// Reads what is used now.
    ///
    /// # Errors
    /// What the kernel tells of the machine cannot be read.
    pub async fn take(self: &Arc<Self>, now: Timestamp) -> io::Result<Usage> {
        let meter = self.clone();
        disk::run(move || meter.read(now)).await
    }

    fn read(&self, now: Timestamp) -> io::Result<Usage> {
        let machine = Machine::read(&self.kernel)?;
        let mut usage = Usage { at: now, ..Usage::default() };
        let mut paces = Paces {
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
                    tracing::debug!(pod = %uid, %error, "what a pod uses is not known");
                }
            }
        }
        usage.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = paces.after;
        Ok(usage)
    }

    /// What a pod uses; nothing when none of its containers runs.
    fn of_pod(&self, uid: &PodUid, pod: &Pod, paces: &mut Paces) -> io::Result<Option<PodUsage>> {
        let mut usage = PodUsage {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.to_string(),
            ..PodUsage::default()
        };
        let (mut sum, mut whole) = (Counted::default(), None);
        for sandbox in &pod.sandboxes {
            let State::Running { started_at, pid } = sandbox.state else { continue };
            let Some((place, counted)) = self.of_container(pid, &sandbox.id)? else { continue };
            usage.started_at = started_at;
            sum = sum.plus(counted);
            whole = whole.or_else(|| place.pod(uid.as_str()));
        }
        for container in &pod.containers {
            let State::Running { started_at, pid } = container.state else { continue };
            let Some((_, counted)) = self.of_container(pid, &container.id)? else { continue };
            sum = sum.plus(counted);
            let used = paces.used(&container.id, counted);
            usage.containers.push(ContainerUsage { name: container.name.clone(), started_at, used });
        }
        // A cgroup of its own has counted those, too, that have ended.
        let counted = whole.and_then(|place| place.count().ok()).unwrap_or(sum);
        usage.used = paces.used(uid.as_str(), counted);
        Ok((!usage.containers.is_empty()).then_some(usage))
    }

    /// Where a container is counted, and what was; nothing when it has just ended.
    fn of_container(&self, pid: u32, id: &str) -> io::Result<Option<(Place, Counted)>> {
        let counted = Place::of(&self.kernel, pid, id).and_then(|place| {
            let counted = place.count()?;
            Ok((place, counted))
        });
        match counted {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A process that ends while it is read of.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How fast processor time is used, from one look to the next.
struct Paces {
    now: Timestamp,
    before: BTreeMap<String, Pace>,
    after: BTreeMap<String, Pace>,
}

impl Paces {
    fn used(&mut self, whose: &str, counted: Counted) -> Used {
        let pace = match self.before.get(whose) {
            Some(last) => last.next(self.now, counted.cpu_nanoseconds),
            None => Pace { at: self.now, cpu_nanoseconds: counted.cpu_nanoseconds, nanocores: None },
        };
        self.after.insert(whose.to_owned(), pace);
        Used { counted, nanocores: pace.nanocores }
    }
}

impl Pace {
    /// The pace at a later moment; that of before when no time has passed.
    fn next(self, now: Timestamp, cpu_nanoseconds: u64) -> Self {
        let passed = now.duration_since(self.at);
        if passed.as_secs() < LEAST_BETWEEN {
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
