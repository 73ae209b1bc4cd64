//! JSON Web Tokens with ES256 and one P-256 key. Other parts of the standard are not supported.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// Maximum token size in bytes. Tokens of this server have about 1,000 bytes; request headers may have up to 64
/// KiB.
const MAX_BYTES: usize = 16 * 1024;
/// DER prefix of a P-256 SubjectPublicKeyInfo (RFC 5480).
const P256_INFO: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// `alg` of the token header.
const ALGORITHM: &str = "ES256";

/// Signs tokens, and verifies tokens that it has signed.
#[derive(Debug)]
pub struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    key_id: String,
}

impl Signer {
    /// Creates a signer with this key (PKCS #8, DER).
    ///
    /// # Errors
    /// If the key is not a P-256 key. The error starts with a verb, so that the caller can prepend the name of the key.
    pub fn new(key: &[u8]) -> Result<Self, String> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random)
            .map_err(|error| format!("contains no P-256 key: {error}"))?;
        let info = [&P256_INFO, pair.public_key().as_ref()].concat();
        let key_id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &info));
        Ok(Self { pair, random, key_id })
    }

    /// `kid` of the token header: a digest of the public key.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Signs the claims.
    ///
    /// # Errors
    /// If the system cannot provide randomness.
    pub fn sign(&self, claims: &Value) -> Result<String, String> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": ALGORITHM, "kid": self.key_id});
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self
            .pair
            .sign(&self.random, signed.as_bytes())
            .map_err(|_| "the system cannot provide randomness for a signature".to_owned())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the claims of a token that this key signed, or `None` for all other tokens.
    pub fn verify(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= MAX_BYTES)?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(text).ok()?).ok();
        let header = part(header)?;
        if header["alg"] != ALGORITHM
            || header.get("kid").is_some_and(|key_id| *key_id != self.key_id.as_str())
        {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).ok()?;
        part(claims)
    }

    /// The public key as a JSON Web Key Set.
    pub fn keys(&self) -> Value {
        // The point starts with 0x04, followed by both coordinates.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": ALGORITHM,
            "x": number(x), "y": number(y),
        }]})
    }
}

#[cfg(test)]
mod tests;
