//! The latest of every pod for whoever tells a cluster: he is slower than those who look here, and takes only what is still so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::Notify;

use super::Report;
use crate::observed::PodUid;

/// The latest of one pod.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    /// Its status, the last one when it is gone.
    pub status: Option<Arc<PodStatus>>,
    /// Whether nothing of it is left.
    pub is_gone: bool,
}

impl Latest {
    /// The same after what is newer.
    pub fn then(&mut self, newer: Self) {
        self.status = newer.status.or(self.status.take());
        self.is_gone = newer.is_gone;
    }
}

/// The latest of every pod of which there is news; a pod has one entry.
#[derive(Debug, Default)]
pub struct Reports {
    latest: Mutex<BTreeMap<PodUid, Latest>>,
    arrived: Notify,
}

impl Reports {
    /// Notes what is reported.
    pub(super) fn put(&self, uid: &PodUid, report: &Report) {
        let newer = match report {
            Report::Status { status, .. } => Latest { status: Some(status.clone()), is_gone: false },
            Report::Gone => Latest { status: None, is_gone: true },
        };
        self.lock().entry(uid.clone()).or_default().then(newer);
        self.arrived.notify_one();
    }

    /// Takes all news there is.
    pub fn take(&self) -> BTreeMap<PodUid, Latest> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until there may be news.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! What is taken is the latest.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[tokio::test]
    async fn the_last_status_stands_beside_the_word_that_a_pod_is_gone() {
        let (reports, uid) = (Reports::default(), PodUid::new("u1"));
        let status = |phase: &str| {
            let status = PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() };
            Report::Status { pod: Arc::new(Pod::default()), status: Arc::new(status), deletion: None }
        };
        for report in [status("Running"), status("Failed"), Report::Gone] {
            reports.put(&uid, &report);
        }
        reports.arrived().await;
        let taken = reports.take().remove(&uid).unwrap();
        assert_eq!((taken.status.unwrap().phase.as_deref(), taken.is_gone), (Some("Failed"), true));
        assert!(reports.take().is_empty());
    }
}
