//! Converts values to strings, for `string(x)` and `%s`.

use jiff::Timestamp;

use super::Value;
use crate::error::Error;

const NANOS: i64 = 1_000_000_000;

/// Formats a duration in seconds, such as `90s` or `1.5s`.
pub(crate) fn duration(nanos: i64) -> String {
    let (whole, rest) = (nanos / NANOS, (nanos % NANOS).unsigned_abs());
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    let fraction = format!("{rest:09}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{whole}s") } else { format!("{sign}{whole}.{fraction}s") }
}

/// Formats a timestamp in RFC 3339.
pub(crate) fn timestamp(at: Timestamp) -> String {
    at.to_string()
}

impl Value {
    /// Converts a scalar to a string.
    pub(crate) fn text(&self) -> Result<String, Error> {
        Ok(match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => double(*value),
            Self::String(text) => text.to_string(),
            Self::Bytes(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| Error::failed("invalid UTF-8 in bytes, cannot convert to string"))?
                .to_owned(),
            Self::Duration(nanos) => duration(*nanos),
            Self::Timestamp(at) => timestamp(*at),
            Self::Null => "null".to_owned(),
            Self::Type(name) => name.to_string(),
            Self::List(_) | Self::Map(_) | Self::Optional(_) | Self::Opaque(_) => {
                return Err(Error::NoSuchOverload(format!("string({})", self.type_name())));
            }
        })
    }
}

/// Formats a number with as few digits as possible. Very large and very small numbers get an exponent.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) => {
                let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |rest| ("-", rest));
                format!("{digits}e{sign}{exponent:0>2}")
            }
            None => text,
        };
    }
    value.to_string()
}
