//! Whether the client of a connection is still believed once the authorities are others.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use super::config::Config;

/// What a client has shown, for as long as an authority that is believed stands for it.
#[derive(Clone, Debug)]
pub(super) struct Believed {
    /// Its certificate first; empty where it has shown none.
    chain: Arc<[CertificateDer<'static>]>,
    /// When it was shown. What has expired since then is no reason to end a connection.
    shown: UnixTime,
    configs: watch::Receiver<Arc<Config>>,
}

impl Believed {
    /// What was shown now, with the configuration that was looked at last.
    pub(super) fn new(chain: &[CertificateDer<'static>], configs: watch::Receiver<Arc<Config>>) -> Self {
        Self { chain: chain.into(), shown: UnixTime::now(), configs }
    }

    /// Waits until nobody stands for the client any more; for ever where it has shown nothing.
    pub(super) async fn lost(mut self) {
        if self.chain.is_empty() {
            return pending().await;
        }
        loop {
            if self.configs.changed().await.is_err() {
                return pending().await;
            }
            let config = self.configs.borrow_and_update().clone();
            if !config.believes(&self.chain, self.shown) {
                return;
            }
        }
    }
}

/// Ends what a connection has become when its client is not believed any more: nobody else looks at it then.
pub(super) struct Cut(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Cut {
    /// When that comes to pass.
    pub(super) fn when(lost: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(lost)))
    }

    /// Whether it has come to pass; who asks is woken when it does.
    pub(super) fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some(lost) = &mut self.0 else { return true };
        match lost.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.0 = None;
                true
            }
            Poll::Pending => false,
        }
    }
}
