//! Bootstrap tokens (`abcdef.0123456789abcdef`), each stored as a Secret in `kube-system`. Pure.

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::{TokenError, secret_data};
use crate::identity::Identity;

/// Namespace of the token Secrets.
pub const NAMESPACE: &str = "kube-system";
/// Type of the token Secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// Group of all bootstrap tokens, and prefix of extra groups.
const GROUP: &str = "system:bootstrappers";
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Lengths of the token ID and of the token secret.
const LENGTHS: (usize, usize) = (6, 16);

/// Token ID and secret, or `None` if the text is not a bootstrap token.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let is_part = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let (id, secret) = token.split_once('.')?;
    (is_part(id, LENGTHS.0) && is_part(secret, LENGTHS.1)).then_some((id, secret))
}

/// Name of the Secret for a token ID.
pub fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// Authenticates a bootstrap token against its Secret.
///
/// # Errors
/// If the token is invalid. The error has details only if the token secret matches.
pub fn check(
    found: Option<&Map<String, Value>>,
    id: &str,
    secret: &str,
    now: Timestamp,
) -> Result<Identity, TokenError> {
    let found = found.ok_or(TokenError::Unknown)?;
    let text = |key: &str| secret_data(found, key).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    let is_terminating =
        found.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some());
    let own = text("token-secret").unwrap_or_default();
    // Comparing digests avoids a timing side channel.
    let is_same = digest(&SHA256, own.as_bytes()).as_ref() == digest(&SHA256, secret.as_bytes()).as_ref();
    if !is_same
        || is_terminating
        || found.get("type").is_none_or(|own| own != TYPE)
        || text("token-id").as_deref() != Some(id)
    {
        return Err(TokenError::Unknown);
    }
    let explained = |why: String| format!("the bootstrap token {id} {why}");
    if let Some(expiration) = text("expiration") {
        // An invalid expiration counts as expired.
        if expiration.parse::<Timestamp>().map_or(true, |expiration| expiration <= now) {
            return Err(TokenError::BootstrapTokenExpired(explained(format!(
                "has expired ({expiration}): an administrator can extend it by a day with `kubectl -n {NAMESPACE} patch secret {} -p \
                 '{{\"stringData\":{{\"expiration\":\"{}\"}}}}'`",
                secret_name(id),
                tomorrow(now)
            ))));
        }
    }
    if text("usage-bootstrap-authentication").as_deref() != Some("true") {
        return Err(TokenError::Invalid(explained(
            "cannot be used for authentication: its Secret lacks usage-bootstrap-authentication: \"true\""
                .to_owned(),
        )));
    }
    let mut groups = vec![GROUP.to_owned()];
    for group in text("auth-extra-groups").unwrap_or_default().split(',').filter(|group| !group.is_empty()) {
        if !is_group(group) {
            return Err(TokenError::Invalid(explained(format!(
                "requests the group {group:?}: groups in auth-extra-groups must start with {GROUP}:"
            ))));
        }
        groups.push(group.to_owned());
    }
    Ok(Identity::authenticated(format!("system:bootstrap:{id}"), groups))
}

/// The time 24 hours later, in whole seconds.
fn tomorrow(now: Timestamp) -> Timestamp {
    now.as_second()
        .checked_add(DAY_SECONDS)
        .and_then(|second| Timestamp::from_second(second).ok())
        .unwrap_or(now)
}

/// Whether a token may add its user to this group.
fn is_group(group: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let end = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    end.bytes().all(|byte| is_letter(byte) || matches!(byte, b':' | b'-'))
        && end.bytes().last().is_some_and(is_letter)
}

#[cfg(test)]
mod tests;
