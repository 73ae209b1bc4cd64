//! Runs image garbage collection, and reports its failures.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::images::{GcError, ImageCollector};
use crate::node::PressureMonitor;
use crate::observed::Timestamp;
use crate::options::Signal;
use crate::report::{About, Outbox, Severity};

/// Interval between collections; `ImageGCPeriod` of the stock kubelet.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The task that collects images.
pub struct ImageGarbageCollection {
    pub node: String,
    pub collector: Arc<ImageCollector>,
    pub monitor: PressureMonitor,
    /// The engine's data directory; empty until the engine has answered.
    pub data_root: watch::Receiver<PathBuf>,
    pub outbox: Arc<Outbox>,
}

impl ImageGarbageCollection {
    /// Runs as soon as the engine has answered, and then every five minutes, until the sender of the data directory is
    /// dropped.
    pub async fn run(mut self) {
        if self.data_root.wait_for(|path| !path.as_os_str().is_empty()).await.is_err() {
            return;
        }
        let mut due = interval(INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_failed = false;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                // A change is used by the next collection.
                changed = self.data_root.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            }
            let data_root = self.data_root.borrow_and_update().clone();
            let observed = self.monitor.observe(&data_root).await;
            let disk = observed.amounts.get(&Signal::ImageFsAvailable);
            let disk = disk.map(|amount| (amount.capacity, amount.available));
            match self.collector.collect(disk, Timestamp::now()).await {
                Ok(()) => has_failed = false,
                Err(error) => {
                    self.report(&error, has_failed);
                    has_failed = true;
                }
            }
        }
    }

    /// Reports a failure. As in the stock kubelet, `ImageGCFailed` needs two failures in a row.
    fn report(&self, error: &GcError, has_failed: bool) {
        let note = |reason| {
            self.outbox.note(About::node(&self.node), Severity::Warning, reason, error.to_string());
        };
        match error {
            GcError::NotEnough { .. } => note("FreeDiskSpaceFailed"),
            GcError::Engine(_) => tracing::warn!(%error, "image garbage collection failed"),
        }
        if has_failed {
            note("ImageGCFailed");
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the events of a failure.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use super::*;
    use crate::metrics::Metrics;
    use crate::options::ImageGc;
    use crate::runtime::fake::Fake;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_reported_and_a_second_one_with_its_own_reason() {
        let root = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
        // Every disk is used by at least 0 %, and nothing can be removed.
        let policy = ImageGc { high_percent: 0, low_percent: 0, ..ImageGc::default() };
        let collector =
            ImageCollector::new(Arc::new(Fake::new("n1")), policy, root.path(), metrics, Timestamp::now());
        let (directory, data_root) = watch::channel(PathBuf::new());
        let outbox = Outbox::new();
        let task = ImageGarbageCollection {
            node: "n1".to_owned(),
            collector: Arc::new(collector),
            monitor: PressureMonitor::new(Path::new("/proc"), root.path()),
            data_root,
            outbox: outbox.clone(),
        };
        let running = tokio::spawn(task.run());
        directory.send_replace(root.path().to_owned());
        let mut reasons = Vec::new();
        while reasons.len() < 3 {
            reasons.extend(outbox.take().await.notes.into_iter().map(|note| note.reason.into_owned()));
        }
        assert_eq!(reasons, ["FreeDiskSpaceFailed", "FreeDiskSpaceFailed", "ImageGCFailed"]);
        drop(directory);
        running.await.unwrap();
    }
}
