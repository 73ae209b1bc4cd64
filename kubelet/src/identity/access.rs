//! How to reach a cluster's API servers: their URLs, the CAs to trust, and the node's credentials.

use std::collections::BTreeSet;
use std::sync::Arc;

use apiserver::status::RejectionCause;
use rustls::pki_types::CertificateDer;

use super::certificate::{self, Certificate};
use super::cluster_info::{ClusterInfo, MAX_SERVERS};

/// Maximum number of former CAs that are remembered. A CA is valid for ten years.
const MAX_FORMER: usize = 8;

/// A cluster as a kubeconfig describes it.
#[derive(Clone, Debug)]
pub struct ClusterAccess {
    /// URLs of the API servers, `https://HOST:PORT`. They are tried in turn.
    pub servers: Vec<String>,
    /// The trusted CA certificates, PEM.
    pub authority: Vec<u8>,
    /// The hashes of retiring CAs. Cluster info that only they authenticate changes nothing.
    pub retiring: Vec<String>,
    /// The hashes of former CAs, oldest first. A join string that pins one of them still refers to this cluster.
    pub former: Vec<String>,
    /// The credentials of this node.
    pub credentials: Credentials,
}

/// The credentials of this node.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// No credentials.
    Anonymous,
    /// A bearer token.
    Token(String),
    /// A client certificate.
    Certificate(Arc<Certificate>),
}

impl ClusterAccess {
    /// Returns the same access with other credentials.
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// The hashes of the CAs, in hex.
    pub fn hashes(&self) -> Vec<String> {
        let all = certificate::certificates(&self.authority).unwrap_or_default();
        all.iter().filter_map(|one| certificate::hash(one).ok()).collect()
    }

    /// The CAs that are not retiring.
    ///
    /// # Errors
    /// If the kubeconfig is invalid. The error starts with a verb, so that the caller can prepend the file name.
    pub fn active_authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut all = certificate::certificates(&self.authority)?;
        let stays = |one: &CertificateDer<'_>| {
            certificate::hash(one).is_ok_and(|hash| !self.retiring.contains(&hash))
        };
        all.retain(stays);
        Ok(all)
    }

    /// Whether both have the same servers and CAs, in any order and regardless of which CAs are retiring.
    pub fn has_same_endpoints(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|known| {
            let sorted = |all: &[String]| BTreeSet::from_iter(all.iter().cloned());
            (sorted(&known.servers), sorted(&known.hashes()))
        });
        own == others
    }

    /// Whether a join string with this pin refers to the cluster.
    pub fn is_pinned_by(&self, pin: &String) -> bool {
        self.former.contains(pin) || self.hashes().contains(pin)
    }

    /// The access after an update of the cluster info, or `None` if nothing changes. The CAs become those of the
    /// cluster info. Known servers that it lacks stay at the end, because it omits masters that are briefly
    /// unavailable.
    ///
    /// # Errors
    /// If a CA certificate is invalid.
    pub fn updated_by(&self, info: &ClusterInfo) -> Result<Option<Self>, String> {
        let authorities = info.authorities()?;
        let known = certificate::certificates(&self.authority)?;
        let mut trusted = authorities.now.iter().chain(&authorities.retiring);
        let is_same =
            known.iter().all(|one| authorities.now.contains(one) || authorities.retiring.contains(one))
                && trusted.all(|one| known.contains(one));
        let retiring = info.retiring()?;
        let is_same = is_same && retiring == self.retiring;
        if is_same && info.servers.iter().all(|server| self.servers.contains(server)) {
            return Ok(None);
        }
        let mut servers = info.servers.clone();
        servers.extend(self.servers.iter().filter(|known| !info.servers.contains(known)).cloned());
        servers.truncate(MAX_SERVERS);
        let mut updated = Self { servers, ..self.clone() };
        if !is_same {
            updated.authority = info.trusted();
            updated.retiring = retiring;
            let now = updated.hashes();
            let gone = self.hashes().into_iter().filter(|hash| !now.contains(hash));
            let mut former: Vec<String> = self.former.iter().cloned().chain(gone).collect();
            updated.former = former.split_off(former.len().saturating_sub(MAX_FORMER));
        }
        Ok(Some(updated))
    }

    /// Whether an API client for one access also works for the other.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_shown = match (&self.credentials, &other.credentials) {
            (Credentials::Anonymous, Credentials::Anonymous) => true,
            (Credentials::Token(one), Credentials::Token(other)) => one == other,
            // Equal certificates in two allocations count as different, which only costs a new connection.
            (Credentials::Certificate(one), Credentials::Certificate(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_shown && self.servers == other.servers && self.authority == other.authority
    }
}

impl Credentials {
    /// The remedy for a rejection, as the end of the error message. The cause is that of the API server.
    pub fn remedy(&self, code: u16, cause: Option<RejectionCause>) -> String {
        use RejectionCause::{BootstrapTokenExpired, BootstrapTokenUnknown, TooManyPendingRequests};
        match (code, self) {
            // The API server's message already names the command.
            (401, Self::Token(_)) if matches!(cause, Some(BootstrapTokenExpired | BootstrapTokenUnknown)) => {
                "; or put another token into the kubeconfig of --bootstrap-kubeconfig".to_owned()
            }
            (401, Self::Token(token)) if !is_bootstrap_token(token) => {
                "; the token is not a bootstrap token (six characters of a-z and 0-9, a dot, sixteen more): check \
                 the kubeconfig of --bootstrap-kubeconfig"
                    .to_owned()
            }
            (401, Self::Token(token)) => {
                let id = token.split('.').next().unwrap_or_default();
                format!(
                    "; extend the token: kubectl -n kube-system patch secret bootstrap-token-{id} -p \
                     \"{{\\\"stringData\\\":{{\\\"expiration\\\":\\\"$(date -u -d +1day +%FT%TZ)\\\"}}}}\", or put \
                     a new one into the kubeconfig of --bootstrap-kubeconfig"
                )
            }
            (401, Self::Certificate(_)) => {
                "; it rejects this node's certificate: remove the certificate to request another one".to_owned()
            }
            (401 | 403, Self::Anonymous) => {
                "; this server rejects anonymous requests: use --bootstrap-kubeconfig with a bootstrap token".to_owned()
            }
            (429, _) if cause == Some(TooManyPendingRequests) => "; approve, deny or delete the CSRs of this node (kubectl get csr)".to_owned(),
            _ => String::new(),
        }
    }
}

/// Whether the text has the form of a bootstrap token: six characters, a dot, sixteen characters.
fn is_bootstrap_token(text: &str) -> bool {
    let is_of = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(id, secret)| is_of(id, 6) && is_of(secret, 16))
}
