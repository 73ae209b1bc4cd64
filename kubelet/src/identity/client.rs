//! The node's client certificate: from a join string, a bootstrap kubeconfig, or the certificate before it.

use std::path::Path;
use std::sync::Arc;

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use jiff::Timestamp;

use super::access::{Known, Shows};
use super::certificate::{self, Certificate};
use super::discover;
use super::files;
use super::keeper::{Keeper, Step};
use super::pace;
use super::request::{Kind, Wanted, is_node};
use super::trouble::Trouble;
use crate::disk;
use crate::options::{Bootstrap, Join};

impl Keeper {
    /// Looks at certificate and kubeconfig and does what is due.
    pub(super) async fn client_step(&mut self) -> Result<Step, Trouble> {
        let now = Timestamp::now();
        let files = self.files.clone();
        let known = disk::run(move || {
            let known = files.known()?;
            if let Some(known) = &known {
                files.write_authorities(&known.authority)?;
            }
            Ok(known)
        });
        let known = known.await?;
        if let (Some(known), Some(Bootstrap::Join(join))) = (&known, &self.settings.cluster.bootstrap) {
            self.is_of_line(known, join)?;
        }
        let held = self.held().await?.or_else(|| known.as_ref().and_then(own));
        let held = held.filter(|held| is_node(&held.facts.common_name, &self.settings.node));
        let usable = held.clone().filter(|held| !held.is_over(now));
        match (usable, known) {
            (Some(usable), Some(known)) => self.renew(usable, known, now).await,
            // A kill came between the certificate and the kubeconfig.
            (Some(usable), None) if self.settings.cluster.bootstrap.is_some() => {
                let (way, _) = self.introduced(None).await?;
                self.write(&way).await?;
                Ok(Step::Got(usable))
            }
            (_, known) => self.begin(held, known).await,
        }
    }

    /// A node that is known looks after itself.
    async fn renew(&mut self, held: Arc<Certificate>, known: Known, now: Timestamp) -> Result<Step, Trouble> {
        if self.shelf.borrow().is_none() {
            return Ok(Step::Got(held));
        }
        let due = pace::renew_at(&held, self.share);
        let way = known.showing(Shows::Certificate(held.clone()));
        if now < due {
            if !self.is_greeted {
                self.greet(way).await.map_err(|trouble| self.with_files(trouble))?;
            }
            return Ok(Step::Rest(due));
        }
        let wanted = Wanted::client(held.facts.common_name.clone());
        let asked = self.ask(way, &wanted, Some(&held)).await;
        asked.map_err(|trouble| self.with_files(trouble))
    }

    /// A machine that is no node, or not any more, asks to be one.
    async fn begin(&mut self, held: Option<Arc<Certificate>>, known: Option<Known>) -> Result<Step, Trouble> {
        let (way, prefix) = self.introduced(known).await?;
        let user = format!("{prefix}{}", self.settings.node);
        let wanted = Wanted::client(user);
        let asked = self.ask(way.clone(), &wanted, held.as_deref()).await;
        let step = asked.map_err(|trouble| self.with_files(trouble))?;
        if matches!(step, Step::Got(_)) && self.settings.cluster.bootstrap.is_some() {
            self.write(&way).await?;
        }
        Ok(step)
    }

    /// The way to the cluster for one who is not known there, and what comes before the node's name in its user.
    async fn introduced(&mut self, known: Option<Known>) -> Result<(Known, String), Trouble> {
        match self.settings.cluster.bootstrap.clone() {
            Some(Bootstrap::Kubeconfig(path)) => Ok((stock(path).await?, STOCK_PREFIX.to_owned())),
            Some(Bootstrap::Join(join)) => {
                if let Some(found) = &self.found {
                    return Ok((found.known.clone(), found.prefix.clone()));
                }
                // What was believed once is what is believed ever after, also by who trusted at first sight.
                let first = known.as_ref().map(|known| hashes(&known.authority)).unwrap_or_default();
                let pin = join.pin.as_ref().or(first.first()).or(self.pin.as_ref());
                let found = match (discover::cluster(&join.servers, pin.map(String::as_str)).await, known) {
                    // Who tells of the cluster is away, or has moved; what was believed still is.
                    (Err(Trouble::Unreachable { .. }), Some(known)) => {
                        return Ok((known.showing(Shows::Nothing), PREFIX.to_owned()));
                    }
                    (found, _) => found.map_err(|trouble| self.with_files(trouble))?,
                };
                if self.pin.is_none() {
                    tracing::info!(servers = ?found.known.servers, "the cluster of the join string is found");
                    self.pin = hashes(&found.known.authority).first().cloned();
                    if let Some(text) = found.clocks(Timestamp::now()) {
                        tracing::warn!("{text}");
                    }
                }
                self.found = Some(found.clone());
                Ok((found.known, found.prefix))
            }
            None => {
                let missing = || {
                    let path = self.settings.cluster.kubeconfig.display().to_string();
                    Trouble::damaged(
                        path,
                        "is not there: write it, or join by --bootstrap or --bootstrap-kubeconfig",
                    )
                };
                let known = known.ok_or_else(missing)?;
                let is_over = own(&known).is_some_and(|own| own.is_over(Timestamp::now()));
                let way = if is_over { known.showing(Shows::Nothing) } else { known };
                Ok((way, STOCK_PREFIX.to_owned()))
            }
        }
    }

    /// Whether the kubeconfig that is there is of the cluster that is to be joined.
    fn is_of_line(&self, known: &Known, join: &Join) -> Result<(), Trouble> {
        match &join.pin {
            Some(pin) if !hashes(&known.authority).contains(pin) => {
                let path = self.settings.cluster.kubeconfig.display().to_string();
                let own = self.files.current(Kind::Client);
                let own = own.display();
                let why = format!(
                    "is of another cluster than --bootstrap: to leave that one and join this, remove it and {own}"
                );
                Err(Trouble::damaged(path, why))
            }
            _ => Ok(()),
        }
    }

    async fn write(&self, way: &Known) -> Result<(), Trouble> {
        let (files, way) = (self.files.clone(), way.clone());
        disk::run(move || files.write_kubeconfig(&way.servers, &way.authority)).await
    }

    pub(super) fn with_files(&self, trouble: Trouble) -> Trouble {
        let (kubeconfig, own) = (self.files.kubeconfig.display(), self.files.current(Kind::Client));
        trouble.with_files(&format!("{kubeconfig} and {}", own.display()))
    }
}

/// What a bootstrap kubeconfig says.
async fn stock(path: std::path::PathBuf) -> Result<Known, Trouble> {
    let missing = |path: &Path| {
        Trouble::damaged(path.display().to_string(), "is not there: see --bootstrap-kubeconfig")
    };
    disk::run(move || files::known(&path)?.ok_or_else(|| missing(&path))).await
}

/// The certificate that a kubeconfig shows.
fn own(known: &Known) -> Option<Arc<Certificate>> {
    match &known.shows {
        Shows::Certificate(own) => Some(own.clone()),
        Shows::Nothing | Shows::Token(_) => None,
    }
}

/// The hashes of the authorities of a PEM text.
fn hashes(authority: &[u8]) -> Vec<String> {
    let all = certificate::certificates(authority).unwrap_or_default();
    all.iter().filter_map(|one| certificate::hash(one).ok()).collect()
}
