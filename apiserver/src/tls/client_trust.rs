//! Trust of a connection's client certificate after the client CA bundle was reloaded, and signatures of certificate chains.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::config::Config;

/// The certificate chain of a client, which is checked against the current client CA bundle.
#[derive(Clone, Debug)]
pub(super) struct ClientTrust {
    /// The chain, client certificate first; empty without one.
    chain: Arc<[CertificateDer<'static>]>,
    /// Time of the handshake. A certificate that expires later does not end the connection.
    shown: UnixTime,
    configs: watch::Receiver<Arc<Config>>,
}

impl ClientTrust {
    /// Creates the trust in a chain that the current configuration has verified.
    pub(super) fn new(chain: &[CertificateDer<'static>], configs: watch::Receiver<Arc<Config>>) -> Self {
        Self { chain: chain.into(), shown: UnixTime::now(), configs }
    }

    /// Whether the latest client CA bundle no longer trusts the client.
    fn is_revoked(&mut self) -> bool {
        !self.chain.is_empty() && self.configs.has_changed().unwrap_or_default() && !self.is_trusted()
    }

    fn is_trusted(&mut self) -> bool {
        let config = self.configs.borrow_and_update().clone();
        config.trusts(&self.chain, self.shown)
    }

    /// Waits until the client is no longer trusted. Without a client certificate it waits forever.
    pub(super) async fn revoked(mut self) {
        if self.chain.is_empty() {
            return pending().await;
        }
        loop {
            if self.configs.changed().await.is_err() {
                return pending().await;
            }
            if !self.is_trusted() {
                return;
            }
        }
    }
}

/// Ends an upgraded connection when its client is no longer trusted. The HTTP server no longer checks such a
/// connection.
pub struct Revocation {
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The client, for checks that do not register a waker.
    client: Option<ClientTrust>,
}

impl fmt::Debug for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revocation").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Revocation {
    /// Creates a revocation that resolves when the client is no longer trusted.
    pub(super) fn of(client: ClientTrust) -> Self {
        Self { revoked: Some(Box::pin(client.clone().revoked())), client: Some(client) }
    }

    /// Creates a revocation that resolves with a future.
    #[cfg(test)]
    pub(super) fn when(revoked: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { revoked: Some(Box::pin(revoked)), client: None }
    }

    /// Waits until the client is no longer trusted.
    pub async fn revoked(mut self) {
        poll_fn(|context| if self.poll_revoked(context) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Whether the client is no longer trusted. Does not wake the task later; [`Self::poll_revoked`] does.
    pub(super) fn has_happened(&mut self) -> bool {
        if self.client.as_mut().is_some_and(ClientTrust::is_revoked) {
            self.revoked = None;
        }
        self.revoked.is_none()
    }

    /// Does the same as [`Self::has_happened`], and registers a waker.
    pub(super) fn poll_revoked(&mut self, context: &mut Context<'_>) -> bool {
        let Some(revoked) = &mut self.revoked else { return true };
        match revoked.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.revoked = None;
                true
            }
            Poll::Pending => false,
        }
    }
}

/// Whether the next certificate signed each certificate of the chain, and `root` signed the last one.
pub fn leads_to(chain: &[CertificateDer<'_>], root: &[u8]) -> bool {
    let Some(end) = chain.iter().position(|signed| is_signed_by(signed, root)) else { return false };
    chain.iter().zip(chain.iter().skip(1)).take(end).all(|(signed, signer)| is_signed_by(signed, signer))
}

/// Whether the key of `authority` signed a certificate (DER).
pub fn is_signed_by(der: &[u8], authority: &[u8]) -> bool {
    let (Ok((_, signed)), Ok((_, authority))) =
        (X509Certificate::from_der(der), X509Certificate::from_der(authority))
    else {
        return false;
    };
    signed.issuer().as_raw() == authority.subject().as_raw()
        && signed.verify_signature(Some(authority.public_key())).is_ok()
}
