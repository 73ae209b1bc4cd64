//! Bearer token authentication: service-account tokens and bootstrap tokens.

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
use crate::watch_cache::WatchCache;

/// The reason why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// This server did not issue the token.
    Unknown,
    /// This server issued the token, but it is no longer valid. The holder may see the reason.
    Invalid(String),
    /// The bootstrap token has expired. The holder may see the reason.
    BootstrapTokenExpired(String),
}

/// Result of token authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The identity of the token's holder.
    pub identity: Identity,
    /// The requested audiences that the token is valid for; empty for tokens without audiences.
    pub audiences: Vec<String>,
}

/// The token authenticator and issuer.
#[derive(Debug)]
pub struct Tokens {
    store: WatchCache,
    signer: Signer,
    issuer: String,
    verified: Cache,
}

impl Tokens {
    /// Creates an authenticator that signs with this key as this issuer, and reads service accounts from this watch cache.
    pub fn new(store: WatchCache, signer: Signer, issuer: String) -> Self {
        Self { store, signer, issuer, verified: Cache::default() }
    }

    /// The issuer, which is also the audience of tokens for this server.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The verification keys as a JSON Web Key Set.
    pub fn keys(&self) -> Value {
        self.signer.keys()
    }

    /// Authenticates a token for one of these audiences, or for this server if there are none.
    ///
    /// # Errors
    /// If the token is unknown or no longer valid.
    pub fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Authenticated, TokenError> {
        if let Some((id, secret)) = bootstrap::parse(token) {
            let found = self.object("secrets", bootstrap::NAMESPACE, &bootstrap::secret_name(id));
            let identity = bootstrap::check(found.as_ref(), id, secret, now)?;
            return Ok(Authenticated { identity, audiences: Vec::new() });
        }
        let claims = self.claims(token)?;
        let own = [self.issuer.clone()];
        let wanted = if audiences.is_empty() { &own } else { audiences };
        let audiences: Vec<String> =
            wanted.iter().filter(|wanted| claims.audiences.contains(wanted)).cloned().collect();
        if claims.issuer != self.issuer || audiences.is_empty() {
            let why =
                format!("the token is for {}, not for {}", claims.audiences.join(", "), wanted.join(", "));
            return Err(TokenError::Invalid(why));
        }
        let identity = service_account::check(&claims, now, |resource, namespace, name| {
            let found = self.store.get(resource, namespace, name)?;
            Some(Found {
                uid: found.uid().to_owned(),
                deleted_at: service_account::deletion_timestamp(&found.decode()),
            })
        });
        Ok(Authenticated { identity: identity.map_err(TokenError::Invalid)?, audiences })
    }

    /// Signs a new token.
    ///
    /// # Errors
    /// If the system cannot provide randomness.
    pub fn sign(&self, claims: &Claims) -> Result<String, String> {
        self.signer.sign(&claims.json())
    }

    /// The service account, for use in token claims.
    pub fn account(&self, namespace: &str, name: &str) -> Option<Account> {
        let found = self.store.get("serviceaccounts", namespace, name)?;
        Some(Account { namespace: namespace.to_owned(), name: name.to_owned(), uid: found.uid().to_owned() })
    }

    /// Returns an object that a token may be bound to.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Map<String, Value>> {
        Some(self.store.get(resource, namespace, name)?.decode())
    }

    /// The claims of a token. The signature is verified only if the cache does not contain the token.
    fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        if let Some(claims) = self.verified.get(token) {
            return Ok(claims);
        }
        let claims = self.signer.verify(token).ok_or(TokenError::Unknown)?;
        let claims = Claims::read(&claims).ok_or(TokenError::Unknown)?;
        self.verified.put(token, claims.clone());
        Ok(claims)
    }
}

/// Decodes a value of a Secret from base64.
fn secret_data(secret: &Map<String, Value>, key: &str) -> Option<Bytes> {
    use base64::Engine as _;
    let text = secret.get("data")?.get(key)?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok().map(Bytes::from)
}
