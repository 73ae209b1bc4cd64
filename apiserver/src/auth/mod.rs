//! Authentication and authorization.
//!
//! A request is authenticated, may impersonate a user, passes the node authorizer and RBAC, and then reaches an
//! access review or the API. All state is derived from stored objects: roles, bindings, pods, service accounts and
//! Secrets.

pub mod attributes;
mod certificates;
mod escalation_check;
mod filter;
mod impersonation;
pub mod nodes;
pub mod rbac;
pub(crate) mod request_log;
mod reviews;
mod synced_index;
pub mod tokens;

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;

pub use attributes::{Attributes, On, ResourceAttributes};
pub use certificates::{
    CertificateApproval, CertificateRequester, CertificateSigning, CertificateSubjectRestriction,
};
pub use escalation_check::EscalationCheck;
pub use nodes::ingress::{INGRESS_CLASS, INGRESS_CLASS_ANNOTATION, INGRESS_LABEL, is_of_built_in_class};
pub use rbac::{Authorizer, Decision, Rule};
pub use reviews::answer_own_review;
pub use tokens::jwt::Signer;

use crate::identity::Identity;
use crate::status::{RejectionCause, Status};
use crate::watch_cache::WatchCache;
use nodes::Nodes;
use tokens::{TokenError, Tokens};

/// What users may do, as access reviews answer it: RBAC of a control plane, or the fixed groups of a lone node.
pub trait AccessPolicy: Send + Sync {
    /// Whether a user may do something.
    fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision;

    /// All rules of a user in a namespace.
    fn rules(&self, who: &Identity, namespace: &str) -> Vec<Rule>;
}

impl AccessPolicy for Auth {
    fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        self.decide(who, attributes)
    }

    fn rules(&self, who: &Identity, namespace: &str) -> Vec<Rule> {
        self.authorizer.with_index(|index| index.rules_of(who, namespace))
    }
}

/// Issuer of service-account tokens.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The issuer URL, which is also the audience of tokens for this server.
    pub name: String,
    /// URL of this server: `https://host:port`.
    pub server: String,
}

/// The authenticators and authorizers of a server.
#[derive(Debug)]
pub struct Auth {
    authorizer: Authorizer,
    nodes: Nodes,
    tokens: Tokens,
    server: String,
}

impl Auth {
    /// Creates the authenticators and authorizers, which read roles, pods, service accounts and Secrets from the
    /// watch cache.
    pub fn new(store: WatchCache, signer: Signer, issuer: Issuer) -> Arc<Self> {
        Self::build(store, signer, issuer, false)
    }

    /// Does the same as [`Auth::new`], and also rejects node certificates whose key is not registered at the Node
    /// ([`nodes::keys`]).
    pub fn with_node_keys(store: WatchCache, signer: Signer, issuer: Issuer) -> Arc<Self> {
        Self::build(store, signer, issuer, true)
    }

    fn build(store: WatchCache, signer: Signer, issuer: Issuer, needs_keys: bool) -> Arc<Self> {
        let Issuer { name, server } = issuer;
        let (authorizer, nodes) = (Authorizer::new(store.clone()), Nodes::new(store.clone(), needs_keys));
        Arc::new(Self { authorizer, nodes, tokens: Tokens::new(store, signer, name), server })
    }

    /// The RBAC authorizer.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Decides by the node authorizer, and then by RBAC.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        if let Some(why) = self.nodes.unregistered(who, attributes) {
            return Decision::Denied(why);
        }
        let of_node = match self.nodes.decide(who, attributes) {
            allowed @ Decision::Allowed(_) => return allowed,
            Decision::Denied(why) => why,
        };
        match self.authorizer.decide(who, attributes) {
            Decision::Denied(why) if why.is_empty() => Decision::Denied(of_node),
            Decision::Denied(why) if !of_node.is_empty() => Decision::Denied(format!("{of_node}\n{why}")),
            decision => decision,
        }
    }

    /// Updates the node authorizer's index in the background, so that no request has to apply thousands of
    /// pod changes.
    pub async fn run_sync(self: Arc<Self>) {
        self.nodes.run_sync().await;
    }

    /// Authenticates a request; `connection` is the identity of its connection.
    ///
    /// A client certificate takes precedence over a bearer token. A request with neither is `system:anonymous`.
    ///
    /// # Errors
    /// 401 for an invalid token.
    fn authenticate(
        &self,
        connection: Identity,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Identity, Status> {
        if !connection.is_anonymous() {
            return Ok(connection);
        }
        let Some(token) = bearer(headers) else { return Ok(connection) };
        match self.tokens.authenticate(token, &[], now) {
            Ok(known) => Ok(known.identity),
            // The same message for every invalid bootstrap token, so that a client cannot probe token IDs.
            Err(TokenError::Unknown) if tokens::bootstrap::parse(token).is_some() => Err(unauthorized(
                "Unauthorized: there is no such bootstrap token: an administrator can list the existing ones with \
                 `kubectl -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token`",
            )
            .with_cause(RejectionCause::BootstrapTokenUnknown)),
            Err(TokenError::Unknown) => Err(unauthorized("Unauthorized")),
            Err(TokenError::Invalid(why)) => Err(unauthorized(&format!("Unauthorized: {why}"))),
            Err(TokenError::BootstrapTokenExpired(why)) => Err(unauthorized(&format!("Unauthorized: {why}"))
                .with_cause(RejectionCause::BootstrapTokenExpired)),
        }
    }

    /// Rejects a request that is not authorized.
    fn check(&self, who: &Identity, attributes: &Attributes) -> Result<(), Status> {
        match self.decide(who, attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(why) => {
                let status = attributes.refused(who, &why);
                Err(match self.nodes.unregistered(who, attributes) {
                    Some(_) => status.with_cause(RejectionCause::NodeKeyNotRegistered),
                    None => status,
                })
            }
        }
    }
}

/// The bearer token of the `Authorization` header. An unsupported scheme or an unreadable value yields a
/// token that is never valid.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or("Bearer").trim();
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn unauthorized(message: &str) -> Status {
    Status::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

#[cfg(test)]
mod tests;
