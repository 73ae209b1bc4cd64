//! Monitors the local storage of a pod that has limits: of `emptyDir` volumes, and `ephemeral-storage` of containers. A pod
//! that exceeds a limit is evicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::quantity::Quantity;
use api::resources::{list, pod_limits};
use apiserver::tasks::OwnedTask;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use super::Dependencies;
use super::evictions::Request;
use super::storage::{self, PodStorage};
use crate::observed::PodUid;
use crate::plan::{MINIMUM_GRACE, spec};
use crate::volumes::{self, Usage};

/// Interval between measurements, as in the stock eviction manager. A measurement of a hundred thousand files takes
/// a tenth of a second.
const EVERY: Duration = Duration::from_secs(10);
/// The resource of a container that the monitor measures.
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// The monitor of one pod. Dropping it stops the measurements.
pub(super) struct StorageMonitor {
    limit_exceeded: watch::Receiver<Option<Request>>,
    _task: OwnedTask,
}

/// The limits of local ephemeral storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Limits {
    /// The sum of the limits of all containers.
    pod: Option<Quantity>,
    /// The limit of each container that has one.
    containers: BTreeMap<String, Quantity>,
}

impl StorageMonitor {
    /// Starts the monitor. Returns `None` if the pod has no limits.
    pub fn start(deps: &Arc<Dependencies>, uid: &PodUid, pod: &Arc<Pod>) -> Option<Self> {
        let limits = Limits::of(pod);
        if !volumes::is_limited(pod) && limits == Limits::default() {
            return None;
        }
        let (deps, uid, pod) = (deps.clone(), uid.clone(), pod.clone());
        let (sender, limit_exceeded) = watch::channel(None);
        let task = OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                match exceeded(&deps, &uid, &pod, &limits).await {
                    Ok(Some(request)) => {
                        let _ = sender.send(Some(request));
                        return;
                    }
                    Ok(None) => {}
                    Err(error) => tracing::debug!(pod = %uid, error, "cannot measure the storage of a pod"),
                }
            }
        });
        Some(Self { limit_exceeded, _task: task })
    }

    /// Waits until the pod exceeds a limit.
    pub async fn limit_exceeded(&mut self) -> Request {
        let found = self.limit_exceeded.wait_for(Option::is_some).await.ok();
        match found.and_then(|request| request.clone()) {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

async fn exceeded(
    deps: &Dependencies,
    uid: &PodUid,
    pod: &Pod,
    limits: &Limits,
) -> Result<Option<Request>, String> {
    let usage = deps.volumes.usage(uid, pod).await.map_err(|error| error.to_string())?;
    if let Some(message) = usage.iter().find_map(volume_exceeds) {
        return Ok(Some(request("emptydirfs.limit", message)));
    }
    if *limits == Limits::default() {
        return Ok(None);
    }
    let storage = storage::measure(deps, uid).await?;
    Ok(limits.exceeded_by(&storage).map(|(signal, message)| request(signal, message)))
}

fn request(signal: &'static str, message: String) -> Request {
    Request { signal, message, grace: MINIMUM_GRACE, pressure: None }
}

fn volume_exceeds(usage: &Usage) -> Option<String> {
    let Usage { volume, limit, .. } = usage;
    (usage.used_bytes > usage.limit_bytes)
        .then(|| format!("Usage of EmptyDir volume \"{volume}\" exceeds the limit \"{limit}\"."))
}

impl Limits {
    fn of(pod: &Pod) -> Self {
        let spec = spec(pod);
        let pod = pod_limits(spec).get(EPHEMERAL_STORAGE).copied();
        let limits = spec.containers.iter().filter_map(|container| {
            let limits = list(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()));
            let limit = limits.get(EPHEMERAL_STORAGE).copied().filter(|limit| !limit.is_zero());
            Some((container.name.clone(), limit?))
        });
        Self { pod, containers: limits.collect() }
    }

    /// The eviction signal and the stock message of the first limit that is exceeded.
    fn exceeded_by(&self, storage: &PodStorage) -> Option<(&'static str, String)> {
        let exceeds = |used_bytes: u64, limit: &Quantity| {
            u64::try_from(limit.units()).is_ok_and(|limit_bytes| used_bytes > limit_bytes)
        };
        if let Some(limit) = self.pod.filter(|limit| exceeds(storage.total().bytes, limit)) {
            let message =
                format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}.");
            return Some(("ephemeralpodfs.limit", message));
        }
        storage.containers.iter().find_map(|container| {
            let name = &container.name;
            let limit = self.containers.get(name)?;
            exceeds(container.layer.plus(container.logs).bytes, limit).then(|| {
                let message =
                    format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\".");
                ("ephemeralcontainerfs.limit", message)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    //! Tests of limits and messages.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::pod_workers::storage::ContainerUse;
    use crate::volumes::DiskUse;

    #[test]
    fn limits_of_containers_and_pod_are_enforced() {
        let of = |name: &str, limit: Option<&str>| {
            let limits = limit.map(|limit| json!({"limits": {"ephemeral-storage": limit}}));
            json!({"name": name, "image": "i", "resources": limits.unwrap_or(json!({}))})
        };
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [of("a", Some("1Mi")), of("b", None)]}}))
                .unwrap();
        let limits = Limits::of(&pod);
        let bytes = |bytes| DiskUse { bytes, inodes: 1 };
        let uses = |a: (u64, u64), b: u64, volumes: u64| PodStorage {
            containers: vec![
                ContainerUse { name: "a".into(), layer: bytes(a.0), logs: bytes(a.1) },
                ContainerUse { name: "b".into(), layer: bytes(b), logs: bytes(0) },
            ],
            volumes: bytes(volumes),
        };
        let mib = 1 << 20;
        assert_eq!(limits.exceeded_by(&uses((mib - 1, 0), 1, 0)), None);
        let of_pod = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi.";
        let found = limits.exceeded_by(&uses((0, 0), mib, 1)).unwrap();
        assert_eq!(found, ("ephemeralpodfs.limit", of_pod.to_owned()));
        let only_container = Limits { pod: None, ..limits };
        assert_eq!(only_container.exceeded_by(&uses((0, 0), 9 * mib, 9 * mib)), None);
        let of_container = "Container a exceeded its local ephemeral storage limit \"1Mi\".";
        let found = only_container.exceeded_by(&uses((mib, 1), 0, 0)).unwrap();
        assert_eq!(found, ("ephemeralcontainerfs.limit", of_container.to_owned()));
        assert_eq!(Limits::of(&Pod::default()), Limits::default());
    }
}
