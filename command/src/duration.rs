//! Durations as people write them in flags and files. Pure.

use std::time::Duration;

use crate::Wanted;

/// A duration as Go writes it: `1h30m`, `20s`, `1.5s`, `100ms`.
pub fn duration(text: &str) -> Result<Duration, Wanted> {
    let wanted = || "is no duration, write one like 20s, 1m30s or 2h".to_owned();
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wanted());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wanted)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wanted())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(wanted()),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wanted())?;
        total = total.checked_add(part).ok_or_else(wanted)?;
        rest = &rest[unit..];
    }
    Ok(total)
}
