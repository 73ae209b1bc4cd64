//! Bootstrap token authentication.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use base64::Engine as _;
use serde_json::json;

use super::*;

const ID: &str = "abcdef";
const SECRET: &str = "0123456789abcdef";

/// A valid Secret with one key changed; an empty value removes the key.
fn secret(key: &str, value: &str) -> Map<String, Value> {
    let mut data = vec![
        ("token-id", ID),
        ("token-secret", SECRET),
        ("usage-bootstrap-authentication", "true"),
        ("expiration", "2030-01-01T00:00:00Z"),
        ("auth-extra-groups", "system:bootstrappers:workers"),
    ];
    data.retain(|(own, _)| *own != key);
    data.push((key, value));
    let data: Map<String, Value> = data
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), base64::engine::general_purpose::STANDARD.encode(value).into()))
        .collect();
    json!({"metadata": {}, "type": TYPE, "data": data}).as_object().unwrap().clone()
}

#[test]
fn bootstrap_token_is_valid_only_if_all_its_fields_are() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let identity = check(Some(&secret("x", "")), ID, SECRET, now).unwrap();
    assert_eq!(identity.user, "system:bootstrap:abcdef");
    assert_eq!(
        identity.groups,
        ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"]
    );
    assert_eq!(check(None, ID, SECRET, now), Err(TokenError::Unknown));
    for (key, value, expected) in [
        ("token-secret", "another", ""),
        ("token-secret", "", ""),
        ("token-id", "another", ""),
        ("expiration", "2025-12-31T00:00:00Z", "has expired"),
        ("expiration", "soon", "has expired"),
        ("usage-bootstrap-authentication", "", "cannot be used for authentication"),
        ("auth-extra-groups", "system:masters", "must start with system:bootstrappers:"),
        ("auth-extra-groups", "system:bootstrappers:", "must start with system:bootstrappers:"),
    ] {
        match check(Some(&secret(key, value)), ID, SECRET, now) {
            Err(TokenError::Unknown) => assert_eq!(expected, "", "{key}={value}"),
            Err(TokenError::Invalid(why)) => {
                assert!(!expected.is_empty() && why.contains(expected), "{key}={value}: {why}");
                assert_ne!(key, "expiration", "{why}");
            }
            Err(TokenError::BootstrapTokenExpired(why)) => {
                assert_eq!((key, why.contains("has expired")), ("expiration", true), "{why}");
            }
            Ok(identity) => panic!("{key}={value}: {identity:?}"),
        }
    }
    assert!(check(Some(&secret("expiration", "")), ID, SECRET, now).is_ok(), "one without an end");
    let expired = secret("expiration", "2025-12-31T00:00:00Z");
    let guessed = check(Some(&expired), ID, "0000000000000000", now);
    assert_eq!(guessed, Err(TokenError::Unknown), "the name alone reveals nothing about the token");
}

#[test]
fn bootstrap_token_format_is_checked() {
    assert_eq!(parse("abcdef.0123456789abcdef"), Some((ID, SECRET)));
    for other in
        ["", "abcdef", "abcde.0123456789abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "a.b.c"]
    {
        assert_eq!(parse(other), None, "{other}");
    }
}
