//! Who may: who sends a request, and whether roles let them do what it asks for.
//!
//! `request -> guard: known? -> as somebody else? -> roles -> a review, or the API`. Everything that is kept here follows from
//! objects in the store: roles, bindings, service accounts, Secrets.

pub mod attributes;
mod certificates;
mod grants;
mod guard;
mod impersonation;
mod openid;
pub mod rbac;
mod reviews;
pub mod tokens;

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
    tokens: Tokens,
    server: String,
}

impl Auth {
    /// Decides by the roles, accounts and Secrets in that store.
    pub fn new(store: Memory, signer: Signer, issuer: Issuer) -> Arc<Self> {
        let Issuer { name, server } = issuer;
        let authorizer = Authorizer::new(store.clone());
        Arc::new(Self { authorizer, tokens: Tokens::new(store, signer, name), server })
    }

    /// Decides by roles alone.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
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
            Err(Refused::Unknown) => Err(unauthorized("Unauthorized")),
            Err(Refused::Over(why)) => Err(unauthorized(&format!("Unauthorized: {why}"))),
        }
    }

    /// Refuses what somebody may not do.
    fn check(&self, who: &Identity, attributes: &Attributes) -> Result<(), Status> {
        match self.authorizer.decide(who, attributes) {
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
