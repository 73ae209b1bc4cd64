//! Formats times as ages: `5m`, `3d4h`.

use jiff::Timestamp;
use serde_json::Value;

use super::{Object, text};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The age of an object, since its creation.
pub(super) fn of(object: &Object, now: Timestamp) -> Value {
    since(text(object, "metadata", "creationTimestamp"), now).into()
}

/// The time since `moment`; `<unknown>` if the text is not a time.
pub(super) fn since(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => duration(now.duration_since(moment).as_secs()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Formats a duration in at most two units. -1 second is accepted because of clock skew.
pub fn duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, coarse: i64, coarse_name: &str, fine: i64, fine_name: &str) -> String {
    match seconds % coarse / fine {
        0 => format!("{}{coarse_name}", seconds / coarse),
        rest => format!("{}{coarse_name}{rest}{fine_name}", seconds / coarse),
    }
}
