//! SIGTERM and SIGINT, which stop the process.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Receives the signals that stop the process. They are caught once this value is created.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch the signals.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
        })
    }

    /// Waits for a signal.
    pub(super) async fn received(&mut self) {
        tokio::select! { _ = self.terminate.recv() => {}, _ = self.interrupt.recv() => {} }
        tracing::info!("stopping");
    }

    /// Sends true when a signal arrives. Then waits forever, so that it does not end before the task that the signal
    /// stops.
    pub(super) async fn forward(mut self, stop: watch::Sender<bool>) {
        self.received().await;
        stop.send_replace(true);
        std::future::pending().await
    }
}
