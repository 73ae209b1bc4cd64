//! What a running master shows and believes follows the files of its directory; connections that are open notice nothing,
//! but for those whose client is not believed any more.

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
use crate::controllers::{self, Authority, Client, Facts};
use crate::data_dir::DataDir;
use crate::options::Controllers;
use crate::owner::{self, Kept, Mark};
use crate::pki::{Life, Names, Pki, Serving};

/// How often a running master looks at its certificates, and more often where its own lives for less than a day.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// What is kept, and by what.
pub(super) struct Keep {
    /// Where the files are.
    pub data_dir: DataDir,
    /// What the master serves under.
    pub names: Names,
    /// Where this machine finds it.
    pub own_address: SocketAddr,
    /// The authorities.
    pub authorities: watch::Sender<Arc<Pki>>,
    /// What is shown.
    pub config: watch::Sender<Arc<Config>>,
    /// The certificate in it.
    pub shown: Mutex<Vec<CertificateDer<'static>>>,
}

impl Keep {
    /// Takes up what is in the directory, and makes what is due.
    fn look(&self, now: Timestamp) -> anyhow::Result<()> {
        let held = self.authorities.borrow().clone();
        let found = self.data_dir.read_pki(now)?.with_lives(held.lives());
        let is_other = !found.is_same(&held);
        let pki = if is_other { Arc::new(found) } else { held };
        let serving = pki.serving(&self.names, now)?;
        let (chain, holds) = (serving.chain.clone(), holds(&serving.chain));
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // Made just now, or put there by somebody else.
        let is_new = *shown != chain;
        if is_new || is_other {
            self.config.send_replace(configured(&pki, serving)?);
            *shown = chain;
        }
        drop(shown);
        if is_new {
            tracing::info!("another serving certificate was taken up{holds}");
        }
        if !is_other {
            return Ok(());
        }
        self.authorities.send_replace(pki.clone());
        tracing::info!(root = pki.root_hash(), "other authorities were taken up");
        self.data_dir.admit(&pki, self.own_address, now)?;
        Ok(())
    }
}

/// Whose a store is, to be noted there when the root is another one.
pub(super) struct Owned {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The key of service accounts, which stays.
    pub service_account_key: String,
    /// Who else may have it.
    pub kept: Kept,
    /// The root that is noted, as far as this master knows.
    pub noted: Option<String>,
}

/// Looks again and again, and whenever somebody asks for it.
pub(super) async fn keep(keep: Keep, mut owned: Owned, mut asked: Reloads) {
    // Several times while a third of its life is left.
    let interval = INTERVAL.min(keep.authorities.borrow().lives().serving / 24);
    let keep = Arc::new(keep);
    loop {
        let told = tokio::select! {
            () = tokio::time::sleep(interval) => None,
            told = asked.recv() => match told {
                Some(told) => Some(told),
                // Nobody can ask any more; time goes on.
                None => {
                    tokio::time::sleep(interval).await;
                    None
                }
            },
        };
        let looked = look(&keep, &mut owned).await.map_err(|error| format!("{error:#}"));
        if let Err(error) = &looked {
            tracing::error!(error, "cannot take up or renew certificates; going on with those of before");
        }
        // Whoever asked may have gone.
        let _ = told.map(|told| told.send(looked));
    }
}

async fn look(keep: &Arc<Keep>, owned: &mut Owned) -> anyhow::Result<()> {
    let own = keep.clone();
    tokio::task::spawn_blocking(move || own.look(Timestamp::now())).await.context("looking at files")??;
    // Whatever kept it from being noted: until it is.
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

/// What is noted of the authorities in the store.
pub(super) fn mark(pki: &Pki, service_account_key: &str) -> Mark {
    Mark {
        root_authority: pki.root_hash(),
        service_account_key: service_account_key.to_owned(),
        retiring_authority: pki.retiring_hash(),
    }
}

/// Runs controllers that know that much whenever their lease is held, until told to stop.
pub(super) async fn control(
    client: Client,
    own: String,
    which: Controllers,
    facts: Facts,
    authorities: watch::Receiver<Arc<Pki>>,
    stopped: watch::Receiver<bool>,
) {
    let lease = controllers::lease(&client, &own, &facts);
    lease.work(|| control_here(&client, &which, &facts, authorities.clone()), stopped).await;
}

/// Runs them, anew whenever the authorities are others: they know them from the start.
async fn control_here(
    client: &Client,
    which: &Controllers,
    facts: &Facts,
    mut authorities: watch::Receiver<Arc<Pki>>,
) {
    loop {
        let pki = authorities.borrow_and_update().clone();
        let root_ca = pki.trusted_pem();
        let authority = facts.authority.clone().map(|authority| Authority { pki, ..authority });
        let facts = Facts { root_ca, authority, ..facts.clone() };
        let run = async {
            controllers::run(client.clone(), which.clone(), facts).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = run => {}
            changed = authorities.changed() => if changed.is_err() { return },
        }
    }
}

/// What a log says of the first of these certificates: until when it is good, and when the next is made.
pub(super) fn holds(chain: &[CertificateDer<'_>]) -> String {
    let life = chain.first().and_then(|first| Life::of(first).ok());
    life.map(|life| format!(": it is good until {}, the next is made at {}", life.until, life.due()))
        .unwrap_or_default()
}

/// How a server of that certificate shakes hands.
pub(super) fn configured(pki: &Pki, serving: Serving) -> Result<Arc<Config>, tls::Error> {
    let client_authorities = pki.client_authorities();
    tls::config(Keys { chain: serving.chain, key: serving.key, client_authorities })
}
