//! A node that is in asks its cluster again who it is: a new root is believed before the old one goes, and servers are found that
//! were not there when it joined. Nothing is believed but what comes over a connection that was believed before.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::access::Known;
use super::api::Api;
use super::certificate::Certificate;
use super::client::both;
use super::cluster_info::{ClusterInfo, PATH};
use super::discover;
use super::keeper::{Keeper, chance};
use super::pace;
use super::request::Kind;
use super::standing::Standing;
use super::trouble::Trouble;
use crate::disk;
use crate::options::Join;

/// What a cluster is known as after it has told of itself.
#[derive(Debug)]
pub(super) enum Taken {
    /// As it says.
    Believed(Known, ClusterInfo),
    /// As before: it is not sure that it is the cluster that says otherwise.
    Doubted(Known),
}

impl Keeper {
    /// The cluster as it tells of itself now, where it is time to ask; otherwise, and where it tells nothing, as it is known.
    pub(super) async fn learn(
        &mut self,
        known: Known,
        held: &Certificate,
        now: Timestamp,
    ) -> Result<Known, Trouble> {
        if Instant::now() < self.ask_at {
            return Ok(known);
        }
        let servers = known.servers.clone();
        let asked = discover::again(&servers, &known.authority).await;
        let soon = |pause: Duration| pause.min(pace::ASK_AFTER_TROUBLE);
        let pause = pace::ask_again(held, chance());
        let pause = match &asked {
            Ok(_) => pause,
            // A stock server tells of nothing to strangers.
            Err(trouble) if is_untold(trouble) => pause,
            Err(Trouble::Refused { .. } | Trouble::Damaged { .. }) => soon(pause),
            // Whatever else this node wants there is in vain, too.
            Err(trouble) => return Err(self.with_files(trouble.clone())),
        };
        let (known, pause) = match asked {
            // What could not be written down is asked for again with the next try.
            Ok(info) => match self.take(known, info, &servers).await? {
                Taken::Believed(known, _) => (known, pause),
                Taken::Doubted(known) => (known, soon(pause)),
            },
            Err(trouble) if is_untold(&trouble) => (known, pause),
            Err(trouble) => {
                let text = format!("what the cluster tells of itself cannot be used: {trouble}");
                self.voice.warn("ClusterInfoTrouble", text, now);
                (known, pause)
            }
        };
        self.ask_at = Instant::now() + pause;
        Ok(known)
    }

    /// Takes what a believed server tells for the truth, once it is sure of what is new, and writes that down. It is confirmed by the
    /// servers that were asked, not by those that are told of.
    pub(super) async fn take(
        &mut self,
        known: Known,
        info: ClusterInfo,
        asked: &[String],
    ) -> Result<Taken, Trouble> {
        let damaged = |why| Trouble::damaged(format!("what {PATH} tells"), why);
        let (info, learned) = match known.learned(&info).map_err(damaged)? {
            None => (info, None),
            Some(_) => match discover::confirmed(&known, info, asked).await {
                Ok(info) => {
                    let learned = known.learned(&info).map_err(damaged)?;
                    (info, learned)
                }
                Err(trouble) => {
                    let (kubeconfig, own) =
                        (self.files.kubeconfig.display(), self.files.current(Kind::Client));
                    let own = own.display();
                    let text = format!(
                        "a server tells of other authorities or servers of the cluster, which is not believed: {trouble}; what was \
                         believed before still is. If the root of before was put back (a `pki` was restored), remove {kubeconfig} and \
                         {own}, and join by the line of `master join-string`"
                    );
                    self.voice.warn("ClusterInfoDoubted", text, Timestamp::now());
                    return Ok(Taken::Doubted(known));
                }
            },
        };
        let told = Some(Arc::new(info.authorities().map_err(damaged)?));
        let Some(learned) = learned else {
            self.common.told.send_replace(told);
            return Ok(Taken::Believed(known, info));
        };
        // What no connection can be made with is not written down.
        Api::new(&learned)?;
        let (files, way) = (self.files.clone(), learned.clone());
        if !disk::run(move || files.rewrite_kubeconfig(&way)).await? {
            if !known.is_same_way(&learned) {
                let path = self.files.kubeconfig.display();
                let text = format!(
                    "the cluster has other authorities or servers than {path}, which this node has not written: bring it up to date, \
                     its authorities are in every ConfigMap kube-root-ca.crt"
                );
                self.voice.warn("ClusterChanged", text, Timestamp::now());
            }
            self.common.told.send_replace(told);
            return Ok(Taken::Believed(known, info));
        }
        self.write_authorities(&learned).await?;
        self.common.told.send_replace(told);
        let hashes = learned.hashes().join(" and sha256:");
        let servers = learned.servers.join(", ");
        let text = format!(
            "the cluster tells of its authorities sha256:{hashes} and its servers {servers}: these are known from now on"
        );
        self.voice.say("ClusterChanged", text, Timestamp::now());
        Ok(Taken::Believed(learned, info))
    }

    /// The cluster that is known, if it is the one that is to be joined: it has the root of the line, had it when this node knew it
    /// first, or tells now that it has it.
    pub(super) async fn of_line(&mut self, known: Known, join: &Join) -> Result<Known, Trouble> {
        let Some(pin) = join.pin.as_ref().filter(|pin| !self.is_of_line && !known.is_pinned_by(pin)) else {
            return Ok(known);
        };
        let servers = both(&known, join);
        match discover::again(&servers, &known.authority).await {
            Ok(info) if info.is_pinned_by(pin) => match self.take(known, info, &servers).await? {
                Taken::Believed(known, info) if info.is_pinned_by(pin) => {
                    self.is_of_line = true;
                    Ok(known)
                }
                Taken::Believed(..) | Taken::Doubted(_) => {
                    let path = self.settings.cluster.kubeconfig.display().to_string();
                    let why = "may be of another cluster than --bootstrap: that it is of the same one is told and not confirmed";
                    Err(Trouble::damaged(path, why))
                }
            },
            Err(trouble) if !is_untold(&trouble) => Err(self.with_files(trouble)),
            Ok(_) | Err(_) => {
                let path = self.settings.cluster.kubeconfig.display().to_string();
                let own = self.files.current(Kind::Client);
                let own = own.display();
                let why = format!(
                    "is of another cluster than --bootstrap: to leave that one and join this, remove it and {own}"
                );
                Err(Trouble::damaged(path, why))
            }
        }
    }

    /// How the certificate in hand stands to the cluster. Each word of the cluster judges the one that was in hand then: what is
    /// asked for because of it is not asked for again and again.
    pub(super) fn standing(&mut self, held: &Certificate, now: Timestamp) -> Standing {
        let Some(told) = self.told.borrow_and_update().clone() else { return self.standing };
        if self.judged.as_ref().is_some_and(|judged| Arc::ptr_eq(judged, &told)) {
            return self.standing;
        }
        self.standing = told.standing(held, self.kind);
        self.judged = Some(told);
        let words = self.kind.words();
        match self.standing {
            Standing::Good => {}
            Standing::Leaving => {
                let text = format!(
                    "the {words} of this node is of a root authority that will be retired: another is asked for"
                );
                self.voice.say("CertificateLeaving", text, now);
            }
            Standing::Foreign => {
                let text = format!(
                    "the {words} of this node is signed by no authority of its cluster: another is asked for"
                );
                self.voice.warn("CertificateForeign", text, now);
            }
        }
        self.standing
    }

    /// Writes down whose clients this node answers; the node's own API is told.
    pub(super) async fn write_authorities(&self, known: &Known) -> Result<(), Trouble> {
        let (files, authority) = (self.files.clone(), known.authority.clone());
        if disk::run(move || files.write_authorities(&authority)).await? {
            self.common.files.send_replace(());
        }
        Ok(())
    }
}

/// Whether a server has no document for strangers.
fn is_untold(trouble: &Trouble) -> bool {
    [401, 403, 404].into_iter().any(|code| trouble.is_code(code))
}
