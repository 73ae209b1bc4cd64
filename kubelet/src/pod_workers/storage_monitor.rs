//! Monitors the disk usage of a pod's `emptyDir` volumes. A pod that exceeds a limit is evicted.

use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::OwnedTask;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use super::Dependencies;
use crate::observed::PodUid;
use crate::volumes::{self, Usage};

/// Interval between measurements, as in the stock eviction manager. A measurement of a hundred thousand files takes
/// a tenth of a second.
const EVERY: Duration = Duration::from_secs(10);

/// The monitor of one pod. Dropping it stops the measurements.
pub(super) struct StorageMonitor {
    limit_exceeded: watch::Receiver<Option<String>>,
    _task: OwnedTask,
}

impl StorageMonitor {
    /// Starts the monitor. Returns `None` if the pod has no limits.
    pub fn start(deps: &Arc<Dependencies>, uid: &PodUid, pod: &Arc<Pod>) -> Option<Self> {
        if !volumes::is_limited(pod) {
            return None;
        }
        let (deps, uid, pod) = (deps.clone(), uid.clone(), pod.clone());
        let (sender, limit_exceeded) = watch::channel(None);
        let task = OwnedTask::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                match deps.volumes.usage(&uid, &pod).await {
                    Ok(usage) => {
                        if let Some(limit_exceeded) = usage.iter().find_map(exceeds) {
                            let _ = sender.send(Some(limit_exceeded));
                            return;
                        }
                    }
                    Err(error) => tracing::debug!(pod = %uid, %error, "cannot measure volumes"),
                }
            }
        });
        Some(Self { limit_exceeded, _task: task })
    }

    /// Waits until the pod exceeds a limit. Returns the message of the stock kubelet.
    pub async fn limit_exceeded(&mut self) -> String {
        let limit_exceeded = self
            .limit_exceeded
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|limit_exceeded| limit_exceeded.clone());
        match limit_exceeded {
            Some(limit_exceeded) => limit_exceeded,
            None => std::future::pending().await,
        }
    }
}

fn exceeds(usage: &Usage) -> Option<String> {
    let Usage { volume, limit, .. } = usage;
    (usage.used_bytes > usage.limit_bytes)
        .then(|| format!("Usage of EmptyDir volume \"{volume}\" exceeds the limit \"{limit}\"."))
}
