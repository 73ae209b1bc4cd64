//! Certificate manager of a running master: reloads and renews the certificates in the data directory. Open
//! connections are closed only if their client certificate is no longer trusted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use apiserver::storage::Store;
use apiserver::tls::{self, Config, Keys};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use crate::backup::Reloads;
use crate::controllers::{self, Authority, Client, ControllerContext};
use crate::data_dir::DataDir;
use crate::options::Controllers;
use crate::owner::{self, Kept, Mark};
use crate::pki::{Names, Pki, Serving, Validity};

/// Interval between checks. It is shorter if the lifetime of the serving certificate is less than a day.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// The certificate manager.
pub(super) struct Keep {
    /// The data directory.
    pub data_dir: DataDir,
    /// Names in the serving certificate.
    pub names: Names,
    /// Address for local kubeconfigs.
    pub own_address: SocketAddr,
    /// The current CAs.
    pub authorities: watch::Sender<Arc<Pki>>,
    /// The current TLS settings.
    pub config: watch::Sender<Arc<Config>>,
    /// The current serving certificate chain.
    pub shown: Mutex<Vec<CertificateDer<'static>>>,
}

impl Keep {
    /// Reloads the directory and renews what is due.
    fn look(&self, now: Timestamp) -> anyhow::Result<()> {
        let held = self.authorities.borrow().clone();
        let found = self.data_dir.read_pki(now)?.with_lifetimes(held.lifetimes());
        let is_other = !found.is_same(&held);
        let pki = if is_other { Arc::new(found) } else { held };
        let serving = pki.serving(&self.names, now)?;
        let (chain, holds) = (serving.chain.clone(), holds(&serving.chain));
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // Renewed now, or replaced by another process.
        let is_new = *shown != chain;
        if is_new || is_other {
            self.config.send_replace(configured(&pki, serving)?);
            *shown = chain;
        }
        drop(shown);
        if is_new {
            tracing::info!("reloaded the serving certificate{holds}");
        }
        if !is_other {
            return Ok(());
        }
        self.authorities.send_replace(pki.clone());
        tracing::info!(root = pki.root_hash(), "reloaded the CA certificates");
        self.data_dir.admit(&pki, self.own_address, now)?;
        Ok(())
    }
}

/// The owner mark in the store, which changes with the root CA.
pub(super) struct Owned {
    pub store: Arc<dyn Store>,
    /// Id of the service account key, which does not change.
    pub service_account_key: String,
    /// Whether other masters share the store.
    pub kept: Kept,
    /// Hash of the root CA in the owner mark of the store, as this master last saw it. `None` if it is unknown.
    pub noted: Option<String>,
}

/// Reloads at each interval and on request.
pub(super) async fn keep(keep: Keep, mut owned: Owned, mut reloads: Reloads) {
    // Several times within the last third of the lifetime.
    let interval = INTERVAL.min(keep.authorities.borrow().lifetimes().serving / 24);
    let keep = Arc::new(keep);
    loop {
        let response = tokio::select! {
            () = tokio::time::sleep(interval) => None,
            response = reloads.recv() => match response {
                Some(response) => Some(response),
                // The sender is gone; go on with the interval.
                None => {
                    tokio::time::sleep(interval).await;
                    None
                }
            },
        };
        let looked = look(&keep, &mut owned).await.map_err(|error| format!("{error:#}"));
        if let Err(error) = &looked {
            tracing::error!(error, "cannot reload or renew certificates; using the previous ones");
        }
        // The requester may be gone.
        let _ = response.map(|response| response.send(looked));
    }
}

async fn look(keep: &Arc<Keep>, owned: &mut Owned) -> anyhow::Result<()> {
    let own = keep.clone();
    tokio::task::spawn_blocking(move || own.look(Timestamp::now()))
        .await
        .context("cannot read the data directory")??;
    // Retried until the mark is written.
    let pki = keep.authorities.borrow().clone();
    let root = Some(pki.root_hash());
    if owned.noted != root {
        let mark = mark(&pki, &owned.service_account_key);
        if owner::claim(&*owned.store, &mark, owned.kept, false, &keep.data_dir.pki()).await? {
            owned.noted = root;
        }
    }
    Ok(())
}

/// The owner mark for the current CAs.
pub(super) fn mark(pki: &Pki, service_account_key: &str) -> Mark {
    Mark {
        root_authority: pki.root_hash(),
        service_account_key: service_account_key.to_owned(),
        retiring_authority: pki.retiring_hash(),
    }
}

/// Runs the controllers while this instance holds their lease, until `stopped` changes.
pub(super) async fn control(
    client: Client,
    own: String,
    which: Controllers,
    context: ControllerContext,
    authorities: watch::Receiver<Arc<Pki>>,
    stopped: watch::Receiver<bool>,
) {
    let lease = controllers::leader_elector(&client, &own, &which, &context);
    lease.run(|| control_here(&client, &which, &context, authorities.clone()), stopped).await;
}

/// Runs the controllers, and restarts them when the CAs change.
async fn control_here(
    client: &Client,
    which: &Controllers,
    context: &ControllerContext,
    mut authorities: watch::Receiver<Arc<Pki>>,
) {
    loop {
        let pki = authorities.borrow_and_update().clone();
        let root_ca = pki.trust_bundle_pem();
        let authority = context.authority.clone().map(|authority| Authority { pki, ..authority });
        let context = ControllerContext { root_ca, authority, ..context.clone() };
        let run = async {
            controllers::run(client.clone(), which.clone(), context).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = run => {}
            changed = authorities.changed() => if changed.is_err() { return },
        }
    }
}

/// The text for the log: expiry and renewal time of the first certificate.
pub(super) fn holds(chain: &[CertificateDer<'_>]) -> String {
    let life = chain.first().and_then(|first| Validity::of(first).ok());
    life.map(|life| format!(": it is valid until {}, and is renewed at {}", life.until, life.renewal_time()))
        .unwrap_or_default()
}

/// The TLS settings of the server.
pub(super) fn configured(pki: &Pki, serving: Serving) -> Result<Arc<Config>, tls::Error> {
    let client_authorities = pki.client_cas();
    tls::config(Keys { chain: serving.chain, key: serving.key, client_authorities })
}
