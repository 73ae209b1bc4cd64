//! The node's client certificate: from a join string, a bootstrap kubeconfig, or the certificate before it.

use std::sync::Arc;

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use jiff::Timestamp;
use tokio::time::Instant;

use super::access::{Known, Shows};
use super::certificate::Certificate;
use super::discover::{self, Found};
use super::files;
use super::keeper::{Keeper, Step};
use super::learn::Taken;
use super::pace;
use super::request::{Kind, Wanted, is_node};
use super::standing::Standing;
use super::trouble::Trouble;
use crate::disk;
use crate::options::{Bootstrap, Join};

impl Keeper {
    /// Looks at certificate and kubeconfig and does what is due.
    pub(super) async fn client_step(&mut self) -> Result<Step, Trouble> {
        let now = Timestamp::now();
        let files = self.files.clone();
        let known = match (disk::run(move || files.known()).await?, self.settings.cluster.bootstrap.clone()) {
            (Some(known), Some(Bootstrap::Join(join))) => Some(self.of_line(known, &join).await?),
            (known, _) => known,
        };
        if let Some(known) = &known {
            self.write_authorities(known).await?;
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
        let known = self.learn(known, &held, now).await?;
        let due = match self.standing(&held, now) {
            Standing::Good => pace::renew_at(&held, self.share),
            Standing::Leaving => now,
            // What nobody there believes is shown to nobody.
            Standing::Foreign => {
                self.common.way.send_replace(None);
                return self.begin(Some(held), Some(known)).await;
            }
        };
        let way = known.showing(Shows::Certificate(held.clone()));
        self.common.way.send_if_modified(|shown| {
            let is_news = shown.as_ref().is_none_or(|before| !before.is_same(&way));
            if is_news {
                *shown = Some(way.clone());
            }
            is_news
        });
        if now < due {
            self.greet(way).await.map_err(|trouble| self.with_files(trouble))?;
            let asked_again = now.saturating_add(self.ask_at.saturating_duration_since(Instant::now()));
            return Ok(Step::Rest(asked_again.unwrap_or(due).min(due)));
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
        let step = asked.map_err(|trouble| self.of_nobody(self.with_files(trouble), &way.shows))?;
        if matches!(step, Step::Got(_)) && self.settings.cluster.bootstrap.is_some() {
            self.write(&way).await?;
        }
        Ok(step)
    }

    /// The way to the cluster for one who is not known there, and what comes before the node's name in its user.
    async fn introduced(&mut self, known: Option<Known>) -> Result<(Known, String), Trouble> {
        match self.settings.cluster.bootstrap.clone() {
            Some(Bootstrap::Kubeconfig(path)) => {
                let stock = stock(path).await?;
                // What was believed once is what is believed ever after; the file only says how to ask anew.
                let way = known.map_or_else(|| stock.clone(), |known| known.showing(stock.shows.clone()));
                Ok((way, STOCK_PREFIX.to_owned()))
            }
            Some(Bootstrap::Join(join)) => {
                if let Some(found) = &self.found {
                    return Ok((found.known.clone(), found.prefix.clone()));
                }
                let found = match known {
                    None => self.found_by(&join).await?,
                    // What was believed once is what is believed ever after.
                    Some(known) => {
                        let servers = both(&known, &join);
                        match discover::again(&servers, &known.authority).await {
                            Ok(info) => match self.take(known, info, &servers).await? {
                                Taken::Believed(known, info) => {
                                    let known = known.showing(Shows::Nothing);
                                    Found { known, prefix: info.prefix, server_time: info.server_time }
                                }
                                // By what it says nothing is done.
                                Taken::Doubted(known) => {
                                    return Ok((known.showing(Shows::Nothing), PREFIX.to_owned()));
                                }
                            },
                            // Who tells of the cluster is away, or has moved.
                            Err(Trouble::Unreachable { .. }) => {
                                return Ok((known.showing(Shows::Nothing), PREFIX.to_owned()));
                            }
                            Err(trouble) => return Err(self.with_files(trouble)),
                        }
                    }
                };
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
                let is_spent = self.standing == Standing::Foreign
                    || own(&known).is_some_and(|own| own.is_over(Timestamp::now()));
                let way = if is_spent { known.showing(Shows::Nothing) } else { known };
                Ok((way, STOCK_PREFIX.to_owned()))
            }
        }
    }

    /// The cluster of a line, for a machine that knows none.
    async fn found_by(&mut self, join: &Join) -> Result<Found, Trouble> {
        let found = discover::cluster(&join.servers, join.pin.as_deref()).await;
        let found = found.map_err(|trouble| self.with_files(trouble))?;
        if join.pin.is_none() {
            // Who trusts at first sight trusts nobody else from then on, also after a restart.
            self.write(&found.known).await?;
        }
        tracing::info!(servers = ?found.known.servers, "the cluster of the join string is found");
        if let Some(text) = found.clocks(Timestamp::now()) {
            tracing::warn!("{text}");
        }
        Ok(found)
    }

    async fn write(&self, way: &Known) -> Result<(), Trouble> {
        let (files, way) = (self.files.clone(), way.clone());
        disk::run(move || files.write_kubeconfig(&way)).await
    }

    pub(super) fn with_files(&self, trouble: Trouble) -> Trouble {
        let (kubeconfig, own) = (self.files.kubeconfig.display(), self.files.current(Kind::Client));
        let own = own.display();
        trouble.with_files(&format!("{kubeconfig} and {own}"))
    }

    /// The same where the cluster does not know this node by its key any more, with what to do about that.
    pub(super) async fn of_unregistered(&self, trouble: Trouble) -> Trouble {
        if !trouble.is_unregistered() || trouble.has_remedy() {
            return trouble;
        }
        let files = self.files.clone();
        let has_others = disk::run(move || files.shows_others()).await.unwrap_or_default();
        trouble.with_remedy(self.files.remedy_of_unregistered(has_others))
    }

    /// The same to whoever was refused by what the kubeconfig shows: it is that of a person, or of another node.
    fn of_nobody(&self, trouble: Trouble, shows: &Shows) -> Trouble {
        let who = match shows {
            _ if !trouble.is_code(403) || self.settings.cluster.bootstrap.is_some() => return trouble,
            Shows::Nothing => return trouble,
            Shows::Token(_) => "a token".to_owned(),
            Shows::Certificate(own) => format!("the certificate of {:?}", own.facts.common_name),
        };
        let (node, kubeconfig) = (&self.settings.node, self.files.kubeconfig.display());
        let minutes = pace::ASK_AFTER_TROUBLE.as_secs() / 60;
        let remedy = format!(
            "; {kubeconfig} shows {who}, and a kubelet needs one of {PREFIX}{node} or {STOCK_PREFIX}{node}. Join by --bootstrap with \
             the line of `master join-string`, or by --bootstrap-kubeconfig, and let --kubeconfig be a file that is not there: the \
             kubelet writes it. It asks again after {minutes} minutes, or when it is started again"
        );
        trouble.with_remedy(remedy).not_before(pace::ASK_AFTER_TROUBLE)
    }
}

/// What a bootstrap kubeconfig says; one that is not there yet is waited for.
async fn stock(path: std::path::PathBuf) -> Result<Known, Trouble> {
    disk::run(move || files::known(&path)?.ok_or(Trouble::Awaited { path })).await
}

/// The certificate that a kubeconfig shows.
fn own(known: &Known) -> Option<Arc<Certificate>> {
    match &known.shows {
        Shows::Certificate(own) => Some(own.clone()),
        Shows::Nothing | Shows::Token(_) => None,
    }
}

/// The servers that are known, then those of the line.
pub(super) fn both(known: &Known, join: &Join) -> Vec<String> {
    let others = join.servers.iter().filter(|server| !known.servers.contains(server));
    known.servers.iter().chain(others).cloned().collect()
}
