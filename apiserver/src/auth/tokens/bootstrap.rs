//! Tokens that a machine begins with: `abcdef.0123456789abcdef`, each a Secret in `kube-system`. Pure.

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::{Refused, datum};
use crate::identity::Identity;

/// Where their Secrets lie.
pub const NAMESPACE: &str = "kube-system";
/// The type of their Secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of them all; each may bring more that begin with it.
const GROUP: &str = "system:bootstrappers";
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Letters of the part that is no secret, and of the one that is.
const LENGTHS: (usize, usize) = (6, 16);

/// Both parts of such a token; `None` for what does not look like one.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let is_part = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let (id, secret) = token.split_once('.')?;
    (is_part(id, LENGTHS.0) && is_part(secret, LENGTHS.1)).then_some((id, secret))
}

/// The name of the Secret of a token.
pub fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// Whom a token names at that moment, by what its Secret says.
///
/// # Errors
/// Nothing is told of a Secret to whoever does not know what is in it.
pub fn check(
    found: Option<&Map<String, Value>>,
    id: &str,
    secret: &str,
    now: Timestamp,
) -> Result<Identity, Refused> {
    let found = found.ok_or(Refused::Unknown)?;
    let text = |key: &str| datum(found, key).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    let is_doomed = found.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some());
    let own = text("token-secret").unwrap_or_default();
    // Digests take as long to compare whatever they are of.
    let is_same = digest(&SHA256, own.as_bytes()).as_ref() == digest(&SHA256, secret.as_bytes()).as_ref();
    if !is_same
        || is_doomed
        || found.get("type").is_none_or(|own| own != TYPE)
        || text("token-id").as_deref() != Some(id)
    {
        return Err(Refused::Unknown);
    }
    let over = |why: String| Refused::Over(format!("the bootstrap token {id} {why}"));
    if let Some(expiration) = text("expiration") {
        // A time that cannot be read is one that has passed.
        if expiration.parse::<Timestamp>().map_or(true, |expiration| expiration <= now) {
            return Err(over(format!(
                "has expired ({expiration}): whoever may lets it hold for another day by `kubectl -n {NAMESPACE} patch secret {} -p \
                 '{{\"stringData\":{{\"expiration\":\"{}\"}}}}'`",
                secret_name(id),
                tomorrow(now)
            )));
        }
    }
    if text("usage-bootstrap-authentication").as_deref() != Some("true") {
        return Err(over(
            "is not for authentication: its Secret lacks usage-bootstrap-authentication: \"true\"".to_owned(),
        ));
    }
    let mut groups = vec![GROUP.to_owned()];
    for group in text("auth-extra-groups").unwrap_or_default().split(',').filter(|group| !group.is_empty()) {
        if !is_group(group) {
            return Err(over(format!(
                "asks for the group {group:?}: groups in auth-extra-groups begin with {GROUP}:"
            )));
        }
        groups.push(group.to_owned());
    }
    Ok(Identity::authenticated(format!("system:bootstrap:{id}"), groups))
}

/// A day later, to the second.
fn tomorrow(now: Timestamp) -> Timestamp {
    now.as_second()
        .checked_add(DAY_SECONDS)
        .and_then(|second| Timestamp::from_second(second).ok())
        .unwrap_or(now)
}

/// Whether a token may bring a group.
fn is_group(group: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let end = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    end.bytes().all(|byte| is_letter(byte) || matches!(byte, b':' | b'-'))
        && end.bytes().last().is_some_and(is_letter)
}

#[cfg(test)]
mod tests;
