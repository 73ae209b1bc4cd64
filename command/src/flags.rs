//! Parses the values of flags, and durations. All errors are reported together.

use std::time::Duration;

/// The error for a value. It starts with a verb, so that the caller can prepend the value.
pub type InvalidValue = String;

/// Collects the settings of a subcommand and the errors in its flags.
pub trait Values {
    /// Reports an invalid value of a flag.
    fn refuse(&mut self, name: &str, text: &str, wanted: &str);

    /// Parses a flag if it is set. An invalid value leaves the setting unchanged.
    fn set<T>(
        &mut self,
        name: &str,
        given: &Option<String>,
        read: impl Fn(&str) -> Result<T, InvalidValue>,
        into: &mut T,
    ) {
        if let Some(text) = given {
            match read(text) {
                Ok(value) => *into = value,
                Err(wanted) => self.refuse(name, text, &wanted),
            }
        }
    }

    /// Parses a flag that is a list. Values from flags replace those from a file.
    fn extend<T>(
        &mut self,
        name: &str,
        given: &[String],
        read: impl Fn(&str) -> Result<T, InvalidValue>,
        into: &mut Vec<T>,
    ) {
        if given.is_empty() {
            return;
        }
        into.clear();
        for text in given {
            match read(text) {
                Ok(value) => into.push(value),
                Err(wanted) => self.refuse(name, text, &wanted),
            }
        }
    }
}

/// Parses a duration in Go notation, such as `1h30m`, `20s`, `1.5s` or `100ms`.
pub fn duration(text: &str) -> Result<Duration, InvalidValue> {
    let wanted = || "is not a duration; write one like 20s, 1m30s or 2h".to_owned();
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
