//! The way to a cluster's API: its servers, whom to believe there, and what to show.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::certificate::{self, Certificate};
use super::cluster_info::{ClusterInfo, MOST_SERVERS};

/// Most roots of before that are remembered: a root lives for ten years.
const MOST_BEFORE: usize = 8;

/// A cluster as a kubeconfig knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// Its authorities, PEM.
    pub authority: Vec<u8>,
    /// The hashes of those of them that are on their way out: what they alone vouch for changes nothing of all this.
    pub leaving: Vec<String>,
    /// The hashes of those that it had before, oldest first: a line that pins one of them still leads to this cluster.
    pub before: Vec<String>,
    /// What to show.
    pub shows: Shows,
}

/// What a node shows.
#[derive(Clone, Debug)]
pub enum Shows {
    /// Nothing: it is a stranger.
    Nothing,
    /// A bearer token.
    Token(String),
    /// A certificate.
    Certificate(Arc<Certificate>),
}

impl Known {
    /// The same, with something else to show.
    pub fn showing(self, shows: Shows) -> Self {
        Self { shows, ..self }
    }

    /// The hashes of its authorities, in hex.
    pub fn hashes(&self) -> Vec<String> {
        let all = certificate::certificates(&self.authority).unwrap_or_default();
        all.iter().filter_map(|one| certificate::hash(one).ok()).collect()
    }

    /// Its authorities that are not on their way out.
    ///
    /// # Errors
    /// What is wrong with one, as the end of a sentence that begins with the kubeconfig.
    pub fn staying(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut all = certificate::certificates(&self.authority)?;
        let stays =
            |one: &CertificateDer<'_>| certificate::hash(one).is_ok_and(|hash| !self.leaving.contains(&hash));
        all.retain(stays);
        Ok(all)
    }

    /// Whether these are the same servers and authorities, in any order and whichever are on their way out.
    pub fn is_same_way(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|known| {
            let sorted = |all: &[String]| BTreeSet::from_iter(all.iter().cloned());
            (sorted(&known.servers), sorted(&known.hashes()))
        });
        own == others
    }

    /// Whether a line with that pin leads to this cluster.
    pub fn is_pinned_by(&self, pin: &String) -> bool {
        self.before.contains(pin) || self.hashes().contains(pin)
    }

    /// The same after what the cluster tells of itself; `None` where that is nothing new. Its authorities are those that it tells of
    /// and no others. Servers that it does not tell of come last and stay: a master that is away for a moment is not told of.
    ///
    /// # Errors
    /// What is wrong with an authority.
    pub fn learned(&self, info: &ClusterInfo) -> Result<Option<Self>, String> {
        let told = info.authorities()?;
        let known = certificate::certificates(&self.authority)?;
        let mut believed = told.now.iter().chain(&told.leaving);
        let is_same = known.iter().all(|one| told.now.contains(one) || told.leaving.contains(one))
            && believed.all(|one| known.contains(one));
        let leaving = info.leaving()?;
        let is_same = is_same && leaving == self.leaving;
        if is_same && info.servers.iter().all(|server| self.servers.contains(server)) {
            return Ok(None);
        }
        let mut servers = info.servers.clone();
        servers.extend(self.servers.iter().filter(|known| !info.servers.contains(known)).cloned());
        servers.truncate(MOST_SERVERS);
        let mut learned = Self { servers, ..self.clone() };
        if !is_same {
            learned.authority = info.believed();
            learned.leaving = leaving;
            let now = learned.hashes();
            let gone = self.hashes().into_iter().filter(|hash| !now.contains(hash));
            let mut before: Vec<String> = self.before.iter().cloned().chain(gone).collect();
            learned.before = before.split_off(before.len().saturating_sub(MOST_BEFORE));
        }
        Ok(Some(learned))
    }

    /// Whether connections of the one are good for the other.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_shown = match (&self.shows, &other.shows) {
            (Shows::Nothing, Shows::Nothing) => true,
            (Shows::Token(one), Shows::Token(other)) => one == other,
            // What is not the same value may be the same certificate, which costs a connection and no more.
            (Shows::Certificate(one), Shows::Certificate(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_shown && self.servers == other.servers && self.authority == other.authority
    }
}

impl Shows {
    /// What to do about a refusal, as the end of what the server said.
    pub fn remedy(&self, code: u16, said: &str) -> String {
        match (code, self) {
            // A master says itself which command it takes.
            (401, Self::Token(_)) if said.contains("kubectl") => {
                "; or put another token into the kubeconfig of --bootstrap-kubeconfig".to_owned()
            }
            (401, Self::Token(token)) if !is_bootstrap_token(token) => {
                "; the token is no bootstrap token (six of a-z and 0-9, a dot, sixteen more): look at the kubeconfig of \
                 --bootstrap-kubeconfig"
                    .to_owned()
            }
            (401, Self::Token(token)) => {
                let id = token.split('.').next().unwrap_or_default();
                format!(
                    "; let the token live longer: kubectl -n kube-system patch secret bootstrap-token-{id} -p \
                     \"{{\\\"stringData\\\":{{\\\"expiration\\\":\\\"$(date -u -d +1day +%FT%TZ)\\\"}}}}\", or put a new one into \
                     the kubeconfig of --bootstrap-kubeconfig"
                )
            }
            (401, Self::Certificate(_)) => {
                "; it does not take this node's certificate: remove that to ask for another".to_owned()
            }
            (401 | 403, Self::Nothing) => {
                "; this server takes no requests of strangers: give --bootstrap-kubeconfig with a bootstrap token".to_owned()
            }
            (429, _) if said.contains("undecided") => "; have the requests of this node decided on or deleted (kubectl get csr)".to_owned(),
            _ => String::new(),
        }
    }
}

/// Whether that could be a bootstrap token: the id of its Secret and what nobody else knows.
fn is_bootstrap_token(text: &str) -> bool {
    let is_of = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(id, secret)| is_of(id, 6) && is_of(secret, 16))
}
