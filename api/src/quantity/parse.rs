//! Reading an amount: sign, digits with at most one point, suffix.

use std::str::FromStr;

use super::{Format, MAX, NANOS, Quantity};

/// A text that is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No digits where digits must stand.
    #[error("is not a number")]
    NotANumber,
    /// Digits, and then something that is no known suffix.
    #[error("has an unknown suffix")]
    Suffix,
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
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

/// What a suffix multiplies by: a power of ten or of two.
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
            let exponent = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            (Scale::Ten(exponent), Format::DecimalExponent)
        }
    };
    Ok((scale, format))
}

/// `whole.fraction * 10^exponent` in billionths, rounded up; anything beyond the largest amount comes out as more than that.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> i128 {
    // Digits left of this many places from the start of `whole` are whole billionths.
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
    // Zeros that the text leaves out; 40 of them exceed any amount already.
    for _ in 0..places.saturating_sub(position).clamp(0, 40) {
        nanos = nanos.saturating_mul(10).min(i128::MAX / 16);
    }
    nanos + i128::from(rest)
}

/// `whole.fraction * 2^shift` in billionths, rounded up.
fn binary_nanos(whole: &str, fraction: &str, shift: u32) -> i128 {
    let scale = 1_i128 << shift;
    let mut units: i128 = 0;
    for byte in whole.bytes() {
        units = units.saturating_mul(10).saturating_add(i128::from(byte - b'0')).min(MAX);
    }
    let mut nanos = units.saturating_mul(scale).min(MAX).saturating_mul(NANOS);
    // From the last digit to the first, a tenth each time: cutting at every step equals cutting once at the end.
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
