//! The latest report of each pod for the status manager. It is slower than the node's own API, and needs only the
//! latest report.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::PodStatus;
use tokio::sync::Notify;

use super::Report;
use crate::observed::PodUid;

/// The latest report of one pod.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    /// The status. If the pod is gone, it is the last one.
    pub status: Option<Arc<PodStatus>>,
    /// Whether nothing of the pod is left.
    pub is_gone: bool,
}

impl Latest {
    /// Merges a newer report.
    pub fn merge(&mut self, newer: Self) {
        self.status = newer.status.or(self.status.take());
        self.is_gone = newer.is_gone;
    }
}

/// The pods with new reports, one report per pod.
#[derive(Debug, Default)]
pub struct Reports {
    latest: Mutex<BTreeMap<PodUid, Latest>>,
    arrived: Notify,
}

impl Reports {
    /// Records a report.
    pub(super) fn put(&self, uid: &PodUid, report: &Report) {
        let newer = match report {
            Report::Status { status, .. } => Latest { status: Some(status.clone()), is_gone: false },
            Report::Gone => Latest { status: None, is_gone: true },
        };
        self.lock().entry(uid.clone()).or_default().merge(newer);
        self.arrived.notify_one();
    }

    /// Returns all new reports, and removes them.
    pub fn take(&self) -> BTreeMap<PodUid, Latest> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits for new reports.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Tests that a new report replaces the previous one.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[tokio::test]
    async fn deletion_report_keeps_the_last_status() {
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
