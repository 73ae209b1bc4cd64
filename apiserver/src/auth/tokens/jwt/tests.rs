//! Own and foreign tokens.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use proptest::prelude::*;

fn signer() -> Signer {
    Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn token_is_valid_only_for_its_signer() {
    let (signer, other) = (signer(), signer());
    let claims = json!({"sub": "a", "list": ["b", 1]});
    let token = signer.sign(&claims).unwrap();
    assert_eq!(signer.verify(&token), Some(claims));
    assert_eq!(other.verify(&token), None);
    assert!(Signer::new(b"no key").unwrap_err().contains("P-256"));
}

#[test]
fn verification_rejects_modified_tokens() {
    let signer = signer();
    let claims = json!({"sub": "a"});
    let token = signer.sign(&claims).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let kid = signer.key_id.as_str();
    for (header, claims, signature) in [
        (json!({"alg": "none"}), claims.clone(), ""),
        (json!({"alg": "none"}), claims.clone(), parts[2]),
        (json!({"alg": "HS256", "kid": kid}), claims.clone(), parts[2]),
        (json!({"alg": ALGORITHM, "kid": "x"}), claims.clone(), parts[2]),
        (json!({"alg": ALGORITHM}), claims.clone(), parts[2]),
        (json!({"alg": ALGORITHM, "kid": kid}), json!({"sub": "b"}), parts[2]),
        (json!({"alg": ALGORITHM, "kid": kid}), claims.clone(), ""),
    ] {
        let forged = format!("{}.{}.{signature}", part(&header), part(&claims));
        assert_eq!(signer.verify(&forged), None, "{header} {claims}");
    }
    assert_eq!(signer.verify(&format!("{token}.{}", parts[2])), None);
    assert_eq!(signer.verify(&"a".repeat(MAX_BYTES + 1)), None);
}

#[test]
fn the_public_key_is_published_as_a_json_web_key() {
    use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};
    let key = rcgen::KeyPair::generate().unwrap();
    let keys = Signer::new(&key.serialize_der()).unwrap().keys();
    let info = rcgen::PublicKeyData::subject_public_key_info(&key);
    let (_, read) = SubjectPublicKeyInfo::from_der(&info).unwrap();
    let point = &read.subject_public_key.data;
    assert_eq!(keys["keys"][0]["x"], URL_SAFE_NO_PAD.encode(&point[1..33]));
    assert_eq!(keys["keys"][0]["y"], URL_SAFE_NO_PAD.encode(&point[33..]));
    assert_eq!(keys["keys"][0]["kid"], URL_SAFE_NO_PAD.encode(digest(&SHA256, &info)));
}

proptest! {
    #[test]
    fn verification_rejects_arbitrary_text(text in "[a-zA-Z0-9_=.-]{0,200}") {
        prop_assert_eq!(signer().verify(&text), None);
    }
}
