//! Counts the lines of a watch, which are its events, as they pass.

/// How many newlines there are.
pub(super) fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
