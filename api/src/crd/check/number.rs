//! Validates numbers: minimum, maximum, multiples, and the 32-bit range.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Walk;
use super::messages::invalid;
use crate::crd::schema::{Kind, ValueValidation};
use crate::path::Path;

impl Walk {
    pub(super) fn number(&mut self, rules: &ValueValidation, kind: Kind, number: &Number, path: &Path<'_>) {
        let name = || path.to_owned().to_string();
        let value = || Value::Number(number.clone());
        if let Some(bound) = &rules.maximum {
            let order = compare(number, &bound.value);
            if order == Ordering::Greater || (bound.exclusive && order == Ordering::Equal) {
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                self.add(invalid(
                    &name(),
                    &value(),
                    &format!("should be less than{or_equal} {}", bound.value),
                ));
            }
        }
        if let Some(bound) = &rules.minimum {
            let order = compare(number, &bound.value);
            if order == Ordering::Less || (bound.exclusive && order == Ordering::Equal) {
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                let what = format!("should be greater than{or_equal} {}", bound.value);
                self.add(invalid(&name(), &value(), &what));
            }
        }
        if let Some(factor) = rules.multiple_of.as_ref().filter(|factor| !is_multiple(number, factor)) {
            self.add(invalid(&name(), &value(), &format!("should be a multiple of {factor}")));
        }
        let is_narrow =
            matches!(kind, Kind::Integer | Kind::IntOrString) && rules.format.as_deref() == Some("int32");
        if is_narrow && whole(number).is_none_or(|number| i32::try_from(number).is_err()) {
            self.add(invalid(&name(), &value(), "must be of type int32: \"int64\""));
        }
    }
}

/// True for a number without a fraction, such as `3` or `3.0`.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_number().and_then(whole).is_some()
}

/// Converts a number without a fraction to an integer. A number that is written as `3.0` is exact up to 2^53.
fn whole(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it has no fraction, and `as` keeps within the range"
    )]
    exact.or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128))
}

fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)).unwrap_or(Ordering::Equal),
    }
}

fn is_multiple(number: &Number, factor: &Number) -> bool {
    /// Tolerance for quotients: 0.3 / 0.1 is not exactly 3 in binary.
    const TOLERANCE: f64 = 1e-9;
    match (whole(number), whole(factor)) {
        (Some(number), Some(factor)) => factor == 0 || number % factor == 0,
        _ => {
            let (Some(number), Some(factor)) = (number.as_f64(), factor.as_f64()) else { return true };
            let quotient = number / factor;
            !quotient.is_finite() || (quotient - quotient.round()).abs() < TOLERANCE
        }
    }
}
