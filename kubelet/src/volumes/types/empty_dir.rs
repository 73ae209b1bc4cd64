//! `emptyDir` volumes: a directory on disk or in memory with the lifetime of the pod.

use std::path::Path;

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume};

use super::{Create, Line, Setup, SizeLimit, VolumeInput, VolumeType};
use crate::volumes::error::{PathError, at};
use crate::volumes::layout::{make_private, open};
use crate::volumes::mounting::{self, Memory, Mounted};

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(EmptyDirVolume(volume.empty_dir.as_ref()?)))
}

struct EmptyDirVolume<'a>(&'a EmptyDirVolumeSource);

/// A planned `emptyDir`.
struct EmptyDir {
    mode: u32,
    group: Option<u32>,
    memory: Option<Memory>,
}

impl EmptyDirVolume<'_> {
    fn medium(&self) -> &str {
        self.0.medium.as_deref().unwrap_or_default()
    }

    fn limit_bytes(&self) -> Option<u64> {
        let limit = Quantity::of(self.0.size_limit.as_ref()?).ok()?.units();
        u64::try_from(limit).ok().filter(|&bytes| bytes > 0)
    }
}

impl VolumeType for EmptyDirVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, group: Option<u32>) -> Result<Setup, String> {
        let memory = match self.medium() {
            "" => None,
            "Memory" => Some(Memory { size_bytes: memory_size(input, self.limit_bytes()), secret: false }),
            other => {
                return Err(format!(
                    "emptyDir medium {other} is not supported: use Memory, or leave it out for the disk"
                ));
            }
        };
        let mode = self.0.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o777);
        let mode = if group.is_some() { mode | 0o2770 } else { mode };
        Ok(Setup::Custom(Box::new(EmptyDir { mode, group, memory })))
    }

    /// The size limit to measure. There is none for volumes in memory, because the kernel limits these.
    fn size_limit(&self) -> Option<SizeLimit> {
        let bytes = self.limit_bytes().filter(|_| self.medium().is_empty())?;
        Some(SizeLimit { bytes, text: self.0.size_limit.as_ref()?.0.clone() })
    }

    fn describe(&self) -> Vec<Line> {
        let limit = self.0.size_limit.as_ref().map_or("<unset>", |limit| limit.0.as_str());
        vec![
            Line::Field("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)".to_owned()),
            Line::Field("Medium", self.medium().to_owned()),
            Line::Field("SizeLimit", limit.to_owned()),
        ]
    }
}

/// Size of a volume in memory. It is at most the pod's total memory limit, or the memory of the node.
fn memory_size(wanted: &VolumeInput<'_>, limit: Option<u64>) -> Option<u64> {
    let of_pod = wanted.pod.spec.as_ref().and_then(memory_of_all);
    let most = of_pod.or(u64::try_from(wanted.facts.memory_bytes).ok().filter(|&bytes| bytes > 0));
    limit.into_iter().chain(most).min()
}

/// Total memory limit of the pod's containers, or `None` if one of them has none.
fn memory_of_all(spec: &PodSpec) -> Option<u64> {
    let limited = |c: &Container| {
        let limits = c.resources.as_ref().and_then(|r| r.limits.as_ref());
        limits.is_some_and(|limits| limits.contains_key("memory"))
    };
    if !spec.containers.iter().chain(spec.init_containers.iter().flatten()).all(limited) {
        return None;
    }
    let limits = api::resources::pod_limits(spec);
    u64::try_from(limits.get("memory")?.units()).ok().filter(|&bytes| bytes > 0)
}

impl Create for EmptyDir {
    /// Creates the directory. Mode and group are set once, because the pod may change them later.
    fn create(&self, path: &Path) -> Result<bool, String> {
        self.make(path).map_err(|error| error.to_string())
    }
}

impl EmptyDir {
    fn make(&self, path: &Path) -> Result<bool, PathError> {
        let is_new = !path.exists();
        if is_new {
            // Created under another name first, so that an interruption leaves nothing incomplete.
            let unfinished = path.with_extension("new");
            make_private(&unfinished)?;
            open(&unfinished, self.mode, self.group)?;
            std::fs::rename(&unfinished, path).map_err(at("rename to", path))?;
        }
        let mut on_disk = false;
        if let Some(memory) = self.memory {
            let mounted = mounting::memory(path, memory)?;
            on_disk = mounted == Mounted::NotPermitted;
            if mounted == Mounted::New {
                open(path, self.mode, self.group)?;
            }
        }
        Ok(on_disk && is_new)
    }
}
