//! Parses a quantity: sign, digits with an optional point, suffix.

use std::str::FromStr;

use super::{Format, MAX, NANOS, Quantity};

/// The reason why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There are no digits.
    #[error("is not a number")]
    NotANumber,
    /// The suffix is unknown.
    #[error("has an unknown suffix")]
    Suffix,
    /// The text is too long.
    #[error("has more than {MAX_BYTES} characters")]
    TooLong,
    /// The exponent is out of range.
    #[error("has an exponent beyond {MAX_EXPONENT}")]
    Exponent,
}

/// Limit in bytes; any valid amount needs fewer.
const MAX_BYTES: usize = 256;
/// Largest decimal exponent, positive or negative; the exponent of a 64-bit float.
const MAX_EXPONENT: i64 = 308;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_BYTES {
            return Err(QuantityError::TooLong);
        }
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::NotANumber);
        }
        let (scale, format) = scale(suffix)?;
        let nanos = match scale {
            Scale::Ten(exponent) => decimal_nanos(whole, fraction, exponent),
            Scale::Two(shift) => binary_nanos(whole, fraction, shift),
        }
        .min(MAX * NANOS);
        let format = if format == Format::BinarySi && nanos < NANOS { Format::DecimalSi } else { format };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }
}

/// The multiplier of a suffix: a power of ten or of two.
enum Scale {
    Ten(i64),
    Two(u32),
}

fn scale(suffix: &str) -> Result<(Scale, Format), QuantityError> {
    let (scale, format) = match suffix {
        "n" => (Scale::Ten(-9), Format::DecimalSi),
        "u" => (Scale::Ten(-6), Format::DecimalSi),
        "m" => (Scale::Ten(-3), Format::DecimalSi),
        "" => (Scale::Ten(0), Format::DecimalSi),
        "k" => (Scale::Ten(3), Format::DecimalSi),
        "M" => (Scale::Ten(6), Format::DecimalSi),
        "G" => (Scale::Ten(9), Format::DecimalSi),
        "T" => (Scale::Ten(12), Format::DecimalSi),
        "P" => (Scale::Ten(15), Format::DecimalSi),
        "E" => (Scale::Ten(18), Format::DecimalSi),
        "Ki" => (Scale::Two(10), Format::BinarySi),
        "Mi" => (Scale::Two(20), Format::BinarySi),
        "Gi" => (Scale::Two(30), Format::BinarySi),
        "Ti" => (Scale::Two(40), Format::BinarySi),
        "Pi" => (Scale::Two(50), Format::BinarySi),
        "Ei" => (Scale::Two(60), Format::BinarySi),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            if exponent.saturating_abs() > MAX_EXPONENT {
                return Err(QuantityError::Exponent);
            }
            (Scale::Ten(exponent), Format::DecimalExponent)
        }
    };
    Ok((scale, format))
}

/// The value of `whole.fraction * 10^exponent` in billionths, rounded up. It is capped above the largest amount.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> i128 {
    // The number of digits that are whole billionths.
    let places = (whole.len() as i64).saturating_add(exponent).saturating_add(9);
    let mut nanos: i128 = 0;
    let mut rest = false;
    let mut position: i64 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).map(|byte| i128::from(byte - b'0')) {
        if position < places {
            nanos = nanos.saturating_mul(10).saturating_add(digit).min(i128::MAX / 16);
        } else {
            rest |= digit != 0;
        }
        position += 1;
    }
    // Append the missing zeros; 40 of them exceed any valid amount.
    for _ in 0..places.saturating_sub(position).clamp(0, 40) {
        nanos = nanos.saturating_mul(10).min(i128::MAX / 16);
    }
    nanos + i128::from(rest)
}

/// The value of `whole.fraction * 2^shift` in billionths, rounded up.
fn binary_nanos(whole: &str, fraction: &str, shift: u32) -> i128 {
    let scale = 1_i128 << shift;
    let mut units: i128 = 0;
    for byte in whole.bytes() {
        units = units.saturating_mul(10).saturating_add(i128::from(byte - b'0')).min(MAX);
    }
    let mut nanos = units.saturating_mul(scale).min(MAX).saturating_mul(NANOS);
    // From the last digit to the first; truncating at each step gives the same result as truncating once.
    let mut part: i128 = 0;
    let mut rest = false;
    for byte in fraction.bytes().rev() {
        part += i128::from(byte - b'0') * scale * NANOS;
        rest |= part % 10 != 0;
        part /= 10;
    }
    nanos = nanos.saturating_add(part);
    nanos.saturating_add(i128::from(rest))
}
