//! Whether the client of a connection is still believed once the authorities are others.

use std::fmt;
use std::future::{pending, poll_fn};
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

    /// Whether nobody stands for it by the configuration that is the latest now.
    fn is_lost(&mut self) -> bool {
        !self.chain.is_empty() && self.configs.has_changed().unwrap_or_default() && !self.is_believed()
    }

    fn is_believed(&mut self) -> bool {
        let config = self.configs.borrow_and_update().clone();
        config.believes(&self.chain, self.shown)
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
            if !self.is_believed() {
                return;
            }
        }
    }
}

/// Ends what a connection has become when its client is not believed any more: nobody else looks at it then.
pub struct Cut {
    lost: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// For those who look without waiting.
    client: Option<Believed>,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Cut {
    /// When nobody stands for that client any more.
    pub(super) fn of(client: Believed) -> Self {
        Self { lost: Some(Box::pin(client.clone().lost())), client: Some(client) }
    }

    /// When that comes to pass.
    #[cfg(test)]
    pub(super) fn when(lost: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { lost: Some(Box::pin(lost)), client: None }
    }

    /// Waits until it comes to pass.
    pub async fn due(mut self) {
        poll_fn(|context| if self.is_due(context) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Whether it has come to pass already; nobody is woken when it does. Who writes asks so, because who reads waits.
    pub(super) fn is_past(&mut self) -> bool {
        if self.client.as_mut().is_some_and(Believed::is_lost) {
            self.lost = None;
        }
        self.lost.is_none()
    }

    /// Whether it has come to pass; who asks is woken when it does.
    pub(super) fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some(lost) = &mut self.lost else { return true };
        match lost.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.lost = None;
                true
            }
            Poll::Pending => false,
        }
    }
}
