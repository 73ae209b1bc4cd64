//! Who may: who sends a request, and whether roles let them do what it asks for.
//!
//! `request -> guard: known? -> as somebody else? -> nodes, roles -> a review, or the API`. Everything that is kept here
//! follows from objects in the store: roles, bindings, pods, service accounts, Secrets.

pub mod attributes;
mod certificates;
mod follow;
mod grants;
mod guard;
mod impersonation;
pub mod nodes;
mod openid;
pub mod rbac;
mod reviews;
pub mod tokens;
pub(crate) mod told;

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;

pub use attributes::{Attributes, On, ResourceAttributes};
pub use certificates::CertificateRequests;
pub use grants::Grants;
pub use rbac::{Authorizer, Decision};
pub use tokens::jwt::Signer;

use crate::identity::Identity;
use crate::status::Status;
use crate::store::Memory;
use nodes::Nodes;
use tokens::{Refused, Tokens};

/// In whose name tokens of service accounts are signed, and where others find the keys.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// A URL; the audience of tokens that are for this server.
    pub name: String,
    /// Where this server is reached: `https://host:port`.
    pub server: String,
}

/// Who may do what on this server.
#[derive(Debug)]
pub struct Auth {
    authorizer: Authorizer,
    nodes: Nodes,
    tokens: Tokens,
    server: String,
}

impl Auth {
    /// Decides by the roles, pods, accounts and Secrets in that store.
    pub fn new(store: Memory, signer: Signer, issuer: Issuer) -> Arc<Self> {
        Self::build(store, signer, issuer, false)
    }

    /// The same, and nobody is a node whose key is not noted at the Node of that name ([`nodes::keys`]).
    pub fn with_node_keys(store: Memory, signer: Signer, issuer: Issuer) -> Arc<Self> {
        Self::build(store, signer, issuer, true)
    }

    fn build(store: Memory, signer: Signer, issuer: Issuer, needs_keys: bool) -> Arc<Self> {
        let Issuer { name, server } = issuer;
        let (authorizer, nodes) = (Authorizer::new(store.clone()), Nodes::new(store.clone(), needs_keys));
        Arc::new(Self { authorizer, nodes, tokens: Tokens::new(store, signer, name), server })
    }

    /// Decides by roles alone.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Whether somebody may do something: because roles say so, or because a node needs it for its pods.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        if let Some(why) = self.nodes.stranger(who, attributes) {
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

    /// Takes in what changes of pods when it changes, for as long as it is polled: where thousands of pods change in a
    /// second, no request has all of it to take in.
    pub async fn keep_up(self: Arc<Self>) {
        self.nodes.keep_up().await;
    }

    /// Who sends a request over a connection of that identity.
    ///
    /// A certificate names somebody for good; without one a bearer token does, and without either it is nobody in particular.
    ///
    /// # Errors
    /// 401 for a token that names nobody.
    fn known(&self, connection: Identity, headers: &HeaderMap, now: Timestamp) -> Result<Identity, Status> {
        if !connection.is_anonymous() {
            return Ok(connection);
        }
        let Some(token) = bearer(headers) else { return Ok(connection) };
        match self.tokens.known(token, &[], now) {
            Ok(known) => Ok(known.identity),
            // The same for all that do not hold, whichever part is wrong: nobody learns which there are.
            Err(Refused::Unknown) if tokens::bootstrap::parse(token).is_some() => Err(unauthorized(
                "Unauthorized: there is no bootstrap token like that, any more or yet: whoever may finds those there are by `kubectl \
                 -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token`",
            )),
            Err(Refused::Unknown) => Err(unauthorized("Unauthorized")),
            Err(Refused::Over(why)) => Err(unauthorized(&format!("Unauthorized: {why}"))),
        }
    }

    /// Refuses what somebody may not do.
    fn check(&self, who: &Identity, attributes: &Attributes) -> Result<(), Status> {
        match self.decide(who, attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(why) => Err(attributes.refused(who, &why)),
        }
    }
}

/// The token of an `Authorization` header; what is none of those that can be is one that nobody has.
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
