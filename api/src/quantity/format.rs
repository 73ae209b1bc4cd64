//! Formats a quantity in canonical form: without a fraction, with the largest possible suffix.

use std::fmt;

use super::{Format, NANOS, Quantity};

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
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
