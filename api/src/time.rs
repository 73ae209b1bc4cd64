//! Formats timestamps for API objects, in UTC.

use jiff::Timestamp;

/// Formats a `Time` in whole seconds: `2026-01-01T00:00:00Z`.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a `MicroTime`: `2026-01-01T00:00:00.000000Z`.
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
