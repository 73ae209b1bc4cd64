//! The way to a cluster's API: its servers, whom to believe there, and what to show.

use std::sync::Arc;

use super::certificate::Certificate;

/// A cluster as a kubeconfig knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// Its authorities, PEM.
    pub authority: Vec<u8>,
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
            (429, _) => "; have the requests of this node decided on or deleted (kubectl get csr)".to_owned(),
            _ => String::new(),
        }
    }
}
