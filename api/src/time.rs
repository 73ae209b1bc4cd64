//! Times as they stand in objects, in UTC.

use jiff::Timestamp;

/// Whole seconds: `2026-01-01T00:00:00Z`, a `Time`.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Millionths of seconds: `2026-01-01T00:00:00.000000Z`, a `MicroTime`.
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
