//! What a pod takes of the disk, measured slowly and beside its work; a pod that takes more than it may is evicted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Tools;
use crate::observed::PodUid;
use crate::volumes::{self, Usage};

/// Time between two looks, as long as between two of the stock kubelet's eviction manager. A look at a hundred thousand
/// files takes a tenth of a second.
const EVERY: Duration = Duration::from_secs(10);

/// Measures one pod for as long as it lives.
pub(super) struct Meter {
    over: watch::Receiver<Option<String>>,
    task: AbortHandle,
}

impl Meter {
    /// Begins to measure; `None` when nothing of the pod is limited.
    pub fn start(tools: &Arc<Tools>, uid: &PodUid, pod: &Arc<Pod>) -> Option<Self> {
        if !volumes::is_limited(pod) {
            return None;
        }
        let (tools, uid, pod) = (tools.clone(), uid.clone(), pod.clone());
        let (said, over) = watch::channel(None);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                match tools.volumes.usage(&uid, &pod).await {
                    Ok(usage) => {
                        if let Some(over) = usage.iter().find_map(exceeds) {
                            let _ = said.send(Some(over));
                            return;
                        }
                    }
                    Err(error) => tracing::debug!(pod = %uid, %error, "cannot measure volumes"),
                }
            }
        });
        Some(Self { over, task: task.abort_handle() })
    }

    /// Waits until the pod takes more than it may: of what, in the words of the stock kubelet.
    pub async fn over(&mut self) -> String {
        let over = self.over.wait_for(Option::is_some).await.ok().and_then(|over| over.clone());
        match over {
            Some(over) => over,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn exceeds(usage: &Usage) -> Option<String> {
    let Usage { volume, limit, .. } = usage;
    (usage.used_bytes > usage.limit_bytes)
        .then(|| format!("Usage of EmptyDir volume \"{volume}\" exceeds the limit \"{limit}\"."))
}
