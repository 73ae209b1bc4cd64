//! Cache of verified token signatures. The server checks the claims of a token on every request, but its signature
//! only once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ring::digest::{SHA256, digest};

use super::service_account::Claims;

/// Entries per generation. Two generations are kept. An entry takes about 0.5 KiB, so the cache covers a thousand
/// nodes with several pods each.
const GENERATION: usize = 4096;

/// SHA-256 of a token, so that the cache holds no usable credentials.
type Digest = [u8; 32];

/// The two generations of the cache. When the younger one is full, it replaces the older one.
#[derive(Debug, Default)]
pub(super) struct Cache {
    generations: Mutex<[HashMap<Digest, Claims>; 2]>,
}

impl Cache {
    pub fn get(&self, token: &str) -> Option<Claims> {
        let digest = of(token);
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *generations;
        if let Some(claims) = young.get(&digest) {
            return Some(claims.clone());
        }
        let claims = old.remove(&digest)?;
        Self::add(&mut generations, digest, claims.clone());
        Some(claims)
    }

    pub fn put(&self, token: &str, claims: Claims) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        Self::add(&mut generations, of(token), claims);
    }

    fn add(generations: &mut [HashMap<Digest, Claims>; 2], digest: Digest, claims: Claims) {
        let [young, old] = generations;
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        young.insert(digest, claims);
    }
}

fn of(token: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::service_account::Account;
    use super::*;

    fn claims(id: usize) -> Claims {
        let account = Account { namespace: String::new(), name: String::new(), uid: String::new() };
        Claims {
            issuer: String::new(),
            audiences: Vec::new(),
            account,
            pod: None,
            secret: None,
            node: None,
            id: id.to_string(),
            issued: 0,
            not_before: 0,
            expires: 0,
        }
    }

    #[test]
    fn token_cache_keeps_used_tokens_and_bounds_the_others() {
        let cache = Cache::default();
        cache.put("used", claims(0));
        for number in 1..4 * GENERATION {
            cache.put(&number.to_string(), claims(number));
            assert_eq!(cache.get("used").unwrap().id, "0");
        }
        assert_eq!(cache.get("1"), None, "an unused entry is evicted");
        let held: usize = cache.generations.lock().unwrap().iter().map(HashMap::len).sum();
        assert!(held <= 2 * GENERATION, "{held}");
    }
}
