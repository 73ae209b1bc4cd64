//! Resource quantities, exact to a billionth: `100m`, `1.5Gi`, `12e6`.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

pub use self::parse::QuantityError;

/// Number of billionths in one unit. Amounts are stored as billionths.
const NANOS: i128 = 1_000_000_000;
/// Maximum amount in units. Larger amounts are capped, as in Kubernetes.
const MAX: i128 = i64::MAX as i128;
/// Suffixes of the powers of 1000, from 1000^-3.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes of the powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Powers of 1000: `k`, `M`, `G`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `Ki`, `Mi`, `Gi`.
    BinarySi,
    /// Powers of ten: `12e6`.
    DecimalExponent,
}

/// A quantity. Equality ignores the notation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// The quantity `0`.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Creates a quantity of whole units, such as bytes or cores.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANOS, format }
    }

    /// Creates a quantity of thousandths, such as millicores.
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * (NANOS / 1000), format: Format::DecimalSi }
    }

    /// Parses the quantity of an API object.
    ///
    /// # Errors
    /// If the text is not a quantity.
    pub fn of(text: &Text) -> Result<Self, QuantityError> {
        text.0.parse()
    }

    /// Whole units (bytes, cores), rounded away from zero.
    pub fn units(self) -> i64 {
        self.scaled(NANOS)
    }

    /// Thousandths of a unit (millicores), rounded away from zero.
    pub fn milli(self) -> i64 {
        self.scaled(NANOS / 1000)
    }

    fn scaled(self, nanos_each: i128) -> i64 {
        let whole = self.nanos / nanos_each;
        let rounded = if self.nanos % nanos_each == 0 { whole } else { whole + self.nanos.signum() };
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// True if there is no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// True if the amount is a whole number of thousandths.
    pub fn is_whole_milli(self) -> bool {
        self.nanos % (NANOS / 1000) == 0
    }

    /// True for amounts below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// True for zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The notation.
    pub fn format(self) -> Format {
        self.format
    }

    /// Rounds to thousandths, away from zero.
    pub fn rounded_to_milli(self) -> Self {
        Self { nanos: i128::from(self.milli()) * (NANOS / 1000), ..self }
    }

    /// The sum, capped to the valid range, in the notation of `self`, or of `other` if `self` is zero.
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let nanos = self.nanos.saturating_add(other.nanos).clamp(-MAX * NANOS, MAX * NANOS);
        Self { nanos, format }
    }

    /// The difference, capped to the valid range, in the notation of `self`.
    pub fn minus(self, other: Self) -> Self {
        Self { format: self.format, ..self.plus(Self { nanos: -other.nanos, ..other }) }
    }

    /// The quantity for an API object.
    pub fn to_text(self) -> Text {
        Text(self.to_string())
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    /// Formats the canonical form: without a fraction, with the largest possible suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.format {
            Format::BinarySi if !small && self.is_whole() => {
                let (number, power) = divide(self.nanos / NANOS, 1024, BINARY.len() - 1);
                write!(f, "{number}{}", BINARY[power])
            }
            Format::DecimalSi | Format::BinarySi => {
                let (number, power) = divide(self.nanos, 1000, DECIMAL.len() - 1);
                // Zero has no suffix.
                let power = if number == 0 { 3 } else { power };
                write!(f, "{number}{}", DECIMAL[power])
            }
            Format::DecimalExponent => {
                let (number, power) = divide(self.nanos, 1000, DECIMAL.len() - 1);
                match power as i32 * 3 - 9 {
                    0 => write!(f, "{number}"),
                    _ if number == 0 => f.write_str("0"),
                    exponent => write!(f, "{number}e{exponent}"),
                }
            }
        }
    }
}

/// Divides by `base` while there is no remainder, at most `limit` times.
fn divide(mut number: i128, base: i128, limit: usize) -> (i128, usize) {
    let mut power = 0;
    while power < limit && number % base == 0 {
        number /= base;
        power += 1;
    }
    (number, power)
}
