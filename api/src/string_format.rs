//! Validates the `format` of strings. Unknown formats are ignored.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

/// True if the text matches the format, or the format is unknown.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date" => is_date(text),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_uri(text),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    text.len() == "2006-01-02".len() && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let has_both = text.get(10..11).is_some_and(|between| matches!(between, "T" | "t" | " "));
    has_both && text.parse::<jiff::Timestamp>().is_ok()
}

/// True for a Go duration (`1h30m`, `1.5s`), or a number with a unit (`3 days`).
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 20] = [
        "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "second", "seconds", "minute", "minutes",
        "hour", "hours", "day", "days", "week", "weeks",
    ];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut found = false;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        if number.parse::<f64>().is_err() || !UNITS.contains(&&tail[..unit]) {
            return false;
        }
        found = true;
        rest = tail[unit..].trim_start();
    }
    found
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let fits = |most: u8| bits.len() <= 3 && bits.parse::<u8>().is_ok_and(|bits| bits <= most);
    (address.parse::<Ipv4Addr>().is_ok() && fits(32)) || (address.parse::<Ipv6Addr>().is_ok() && fits(128))
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    let is_pair = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(is_pair)
}

/// True for a UUID, with or without hyphens. For `uuid3` to `uuid5`, the version digit must match.
fn is_uuid(format: &str, text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let version = format.strip_prefix("uuid").and_then(|version| version.chars().next());
    (groups == GROUPS || groups.len() == 1)
        && digits.len() == 32
        && digits.iter().all(char::is_ascii_hexdigit)
        && version.is_none_or(|version| digits[12] == version)
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len())
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 255 && text.split('.').all(is_label)
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@')
        .is_some_and(|(who, host)| !who.is_empty() && !who.contains(char::is_whitespace) && is_hostname(host))
}

/// True for a URI with a scheme, and for an absolute path.
fn is_uri(text: &str) -> bool {
    let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii());
    let scheme = text.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    let has_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_clean && (has_scheme || text.starts_with('/'))
}
