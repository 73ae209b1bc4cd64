//! Bearer tokens: those that the master signs for service accounts, and those that nodes begin with.

pub mod bootstrap;
mod cache;
pub mod jwt;
pub mod service_account;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value};

use self::cache::Cache;
use self::jwt::Signer;
use self::service_account::{Account, Claims, Found};
use crate::identity::Identity;
use crate::store::Memory;

/// Why a token names nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is nothing that was given out here.
    Unknown,
    /// It was given out here and no longer holds; why, for whoever has it.
    Over(String),
}

/// Whom a token names, and for whom it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The user.
    pub identity: Identity,
    /// Those of the audiences asked for that the token was made for; empty for tokens that are made for nobody else.
    pub audiences: Vec<String>,
}

/// Knows tokens, and makes them.
#[derive(Debug)]
pub struct Tokens {
    store: Memory,
    signer: Signer,
    issuer: String,
    verified: Cache,
}

impl Tokens {
    /// Tokens signed with that key in the name of that issuer, for accounts in that store.
    pub fn new(store: Memory, signer: Signer, issuer: String) -> Self {
        Self { store, signer, issuer, verified: Cache::default() }
    }

    /// Who signs tokens, and the audience of those that are for this server.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The keys that tokens may be verified with, as a JSON Web Key Set.
    pub fn keys(&self) -> Value {
        self.signer.keys()
    }

    /// Whom a token names at that moment, when it was made for one of those audiences; for this server when there are none.
    ///
    /// # Errors
    /// When it is nobody's, or was somebody's.
    pub fn known(&self, token: &str, audiences: &[String], now: Timestamp) -> Result<Known, Refused> {
        if let Some((id, secret)) = bootstrap::parse(token) {
            let found = self.object("secrets", bootstrap::NAMESPACE, &bootstrap::secret_name(id));
            let identity = bootstrap::check(found.as_ref(), id, secret, now)?;
            return Ok(Known { identity, audiences: Vec::new() });
        }
        let claims = self.claims(token)?;
        let own = [self.issuer.clone()];
        let wanted = if audiences.is_empty() { &own } else { audiences };
        let audiences: Vec<String> =
            wanted.iter().filter(|wanted| claims.audiences.contains(wanted)).cloned().collect();
        if claims.issuer != self.issuer || audiences.is_empty() {
            let why =
                format!("the token is for {}, not for {}", claims.audiences.join(", "), wanted.join(", "));
            return Err(Refused::Over(why));
        }
        let identity = service_account::check(&claims, now, |resource, namespace, name| {
            let found = self.store.get(resource, namespace, name)?;
            Some(Found { uid: found.uid().to_owned(), doomed: service_account::doomed(&found.decode()) })
        });
        Ok(Known { identity: identity.map_err(Refused::Over)?, audiences })
    }

    /// A new token with those claims.
    ///
    /// # Errors
    /// When the key refuses to sign, which it does for want of randomness alone.
    pub fn sign(&self, claims: &Claims) -> Result<String, String> {
        self.signer.sign(&claims.json())
    }

    /// A service account, for a token of it.
    pub fn account(&self, namespace: &str, name: &str) -> Option<Account> {
        let found = self.store.get("serviceaccounts", namespace, name)?;
        Some(Account { namespace: namespace.to_owned(), name: name.to_owned(), uid: found.uid().to_owned() })
    }

    /// An object that a token may be bound to.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Map<String, Value>> {
        Some(self.store.get(resource, namespace, name)?.decode())
    }

    /// What a token of ours says; the signature is verified once for as long as the token is remembered.
    fn claims(&self, token: &str) -> Result<Claims, Refused> {
        if let Some(claims) = self.verified.get(token) {
            return Ok(claims);
        }
        let claims = self.signer.verify(token).ok_or(Refused::Unknown)?;
        let claims = Claims::read(&claims).ok_or(Refused::Unknown)?;
        self.verified.put(token, claims.clone());
        Ok(claims)
    }
}

/// The bytes of a key that stands as base64 in the `data` of a Secret.
fn datum(secret: &Map<String, Value>, key: &str) -> Option<Bytes> {
    use base64::Engine as _;
    let text = secret.get("data")?.get(key)?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok().map(Bytes::from)
}
