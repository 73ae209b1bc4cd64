//! Short-lived tokens with which a browser reads the API of this node. The key of the node's own CA signs them.

use std::sync::RwLock;

use apiserver::auth::Signer;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::LocalCa;

/// Issuer of the tokens. No service account has it.
const ISSUER: &str = "coracle.dev/node";
/// Audience of the tokens: the API of the node that signed them.
const AUDIENCE: &str = "coracle.dev/viewer";
/// User name of the holder, as in a kubeconfig of `kubelet kubeconfig --read-only`.
const USER: &str = "node-viewer";
/// Tolerance for clock skew between the command and the kubelet. Both run on one machine.
const LEEWAY: SignedDuration = SignedDuration::from_secs(5);

impl LocalCa {
    /// Signs a token of a viewer, valid for `lifetime` from `now`.
    ///
    /// # Errors
    /// If the key is not a P-256 key, or the system cannot provide randomness.
    pub fn sign_viewer_token(&self, now: Timestamp, lifetime: SignedDuration) -> Result<String, String> {
        let issued = now.as_second();
        let expires = issued.saturating_add(lifetime.as_secs());
        self.signer()?.sign(&json!({
            "iss": ISSUER, "aud": [AUDIENCE], "sub": USER, "iat": issued, "nbf": issued, "exp": expires,
        }))
    }

    fn signer(&self) -> Result<Signer, String> {
        Signer::new(&self.key.serialize_der())
    }
}

/// Authenticates tokens of viewers with the current key of the node's own CA. Without a key, it rejects every token.
#[derive(Debug, Default)]
pub struct ViewerTokens {
    signer: RwLock<Option<Signer>>,
}

impl ViewerTokens {
    /// Uses the key of this CA from now on. Tokens of the previous key are no longer valid.
    pub fn set(&self, ca: Option<&LocalCa>) {
        let signer = ca.and_then(|ca| ca.signer().ok());
        match self.signer.write() {
            Ok(mut current) => *current = signer,
            Err(poisoned) => *poisoned.into_inner() = signer,
        }
    }

    /// The user name of a viewer with this token. `None` if the token is not valid at `now`.
    pub fn authenticate(&self, token: &str, now: Timestamp) -> Option<String> {
        let signer = self.signer.read().ok()?;
        let claims = signer.as_ref()?.verify(token)?;
        let seconds = |claim: &str| claims.get(claim).and_then(Value::as_i64);
        let is_for_viewers = claims["iss"] == ISSUER
            && claims["aud"].as_array().is_some_and(|audiences| audiences.iter().any(|one| one == AUDIENCE));
        let is_valid = seconds("nbf")? <= now.as_second().saturating_add(LEEWAY.as_secs())
            && now.as_second() < seconds("exp")?;
        let user = claims.get("sub")?.as_str()?;
        (is_for_viewers && is_valid).then(|| user.to_owned())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the validity of tokens.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use jiff::civil::Date;

    use super::super::Files;
    use super::*;

    fn ca() -> LocalCa {
        let folder = tempfile::tempdir().unwrap();
        LocalCa::open_or_create(&Files::of(folder.path()), Date::constant(2026, 2, 28)).unwrap()
    }

    #[test]
    fn a_token_makes_its_holder_a_viewer_until_it_expires() {
        let (ca, tokens) = (ca(), ViewerTokens::default());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let token = ca.sign_viewer_token(now, SignedDuration::from_hours(12)).unwrap();
        assert_eq!(tokens.authenticate(&token, now), None);
        tokens.set(Some(&ca));
        assert_eq!(tokens.authenticate(&token, now).as_deref(), Some(USER));
        let after = |seconds| now + SignedDuration::from_secs(seconds);
        assert!(tokens.authenticate(&token, after(12 * 3600 - 1)).is_some());
        assert_eq!(tokens.authenticate(&token, after(12 * 3600)), None);
        assert_eq!(tokens.authenticate(&token, after(-60)), None);
    }

    #[test]
    fn tokens_of_other_keys_audiences_and_removed_cas_are_rejected() {
        let (ca, tokens) = (ca(), ViewerTokens::default());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        tokens.set(Some(&ca));
        let other = self::ca().sign_viewer_token(now, SignedDuration::from_hours(1)).unwrap();
        let token = ca.sign_viewer_token(now, SignedDuration::from_hours(1)).unwrap();
        let claims = json!({"iss": ISSUER, "aud": ["other"], "sub": USER, "nbf": 0, "exp": i64::MAX});
        let audience = ca.signer().unwrap().sign(&claims).unwrap();
        for rejected in [&other, &audience, "", "a.b.c", &format!("{token}x")] {
            assert_eq!(tokens.authenticate(rejected, now), None);
        }
        tokens.set(None);
        assert_eq!(tokens.authenticate(&token, now), None);
    }
}
