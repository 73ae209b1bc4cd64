//! Which pods have run to their end, for whoever keeps account of what the node's pods hold.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::observed::PodUid;

/// Pods that have come to their end and were not asked about yet; at most one entry a pod.
#[derive(Debug, Default)]
pub struct Finished {
    pods: Mutex<BTreeSet<PodUid>>,
    arrived: Notify,
}

impl Finished {
    /// A pod has come to its end.
    pub(super) fn add(&self, uid: PodUid) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
        self.arrived.notify_one();
    }

    /// Waits for the next ones and takes them.
    pub(super) async fn take(&self) -> BTreeSet<PodUid> {
        loop {
            let pods = std::mem::take(&mut *self.pods.lock().unwrap_or_else(PoisonError::into_inner));
            if !pods.is_empty() {
                return pods;
            }
            self.arrived.notified().await;
        }
    }
}
