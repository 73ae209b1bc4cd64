//! Size limit of stored objects, which equals the request limit of etcd in stock clusters.

use super::Error;
use crate::watch_cache::{Draft, Object};

/// Maximum size of a stored object in bytes, including `metadata.managedFields`: etcd's default for
/// `--max-request-bytes`.
pub(super) const MAX_OBJECT_BYTES: usize = 1536 * 1024;

/// Checks the size of an object that replaces `before`.
///
/// Two kinds of writes are exempt: writes that do not make the object larger, and the write that starts its
/// deletion. Users can thus reduce and delete objects that an earlier version accepted.
///
/// # Errors
/// [`Error::TooLarge`] if the object is too large.
pub(super) fn check(draft: &Draft, before: Option<&Object>) -> Result<(), Error> {
    if draft.size() <= MAX_OBJECT_BYTES {
        return Ok(());
    }
    let json = draft.stored();
    let is_exempt = before.is_some_and(|before| {
        json.len() <= before.json().len() || (draft.is_terminating() && !before.is_terminating())
    });
    let bytes = json.len() - escape_bytes(&json);
    if is_exempt || bytes <= MAX_OBJECT_BYTES { Ok(()) } else { Err(Error::TooLarge { bytes }) }
}

/// The number of bytes that JSON escapes add. Stock clusters store protobuf, which has no escapes. Without this
/// correction, the server would reject a 1 MiB ConfigMap with many line breaks that a stock cluster accepts.
fn escape_bytes(json: &[u8]) -> usize {
    let (mut added, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let escaped = json.get(at + found + 1);
        // `\u001f` and `\n` each encode one byte.
        let length = if escaped == Some(&b'u') { 6 } else { 2 };
        added += length - 1;
        at += found + length;
    }
    added
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn draft(text: &str, is_terminating: bool) -> Draft {
        let mut object = json!({"metadata": {"name": "a"}, "data": {"a": text}});
        if is_terminating {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let Value::Object(object) = object else { panic!() };
        Draft::new(&object, &[].into())
    }

    #[test]
    fn objects_above_the_limit_may_shrink_and_be_deleted() {
        let text = |bytes: usize| "x".repeat(bytes);
        let small = draft("x", false).at(1);
        let large = draft(&text(2 << 20), false).at(1);
        assert!(check(&draft(&text(1_500_000), false), None).is_ok());
        for before in [None, Some(&small)] {
            let refused = check(&draft(&text(MAX_OBJECT_BYTES), false), before);
            assert!(matches!(refused, Err(Error::TooLarge { bytes }) if bytes > MAX_OBJECT_BYTES));
        }
        assert!(check(&draft(&text((2 << 20) - 100), false), Some(&large)).is_ok());
        assert!(check(&draft(&text((2 << 20) + 100), false), Some(&large)).is_err());
        assert!(check(&draft(&text(2 << 20), true), Some(&large)).is_ok());
        let oversized = draft(&text(2 << 20), true).at(2);
        assert!(check(&draft(&text((2 << 20) + 100), true), Some(&oversized)).is_err());
    }

    #[test]
    fn json_escapes_do_not_count_towards_the_size() {
        assert_eq!(escape_bytes(br#"{"a":"b\n\\\"\u0001c\t"}"#), 4 + 5);
        assert!(check(&draft(&"\n".repeat(1 << 20), false), None).is_ok());
        assert!(check(&draft(&"\u{1}".repeat(1 << 20), false), None).is_ok());
        assert!(check(&draft(&"\u{1}".repeat(2 << 20), false), None).is_err());
    }
}
