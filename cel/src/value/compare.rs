//! Equality and order of values.

use std::cmp::Ordering;

use super::Value;
use crate::budget::Budget;
use crate::error::Error;

impl Value {
    /// True if both values are equal. Numbers of different types are compared by value. Other values of different
    /// types are not equal.
    pub(crate) fn equals(&self, other: &Self, budget: &mut Budget) -> Result<bool, Error> {
        budget.charge(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::String(one), Self::String(two)) => {
                budget.charge_bytes(one.len().min(two.len()))?;
                one == two
            }
            (Self::Bytes(one), Self::Bytes(two)) => {
                budget.charge_bytes(one.len().min(two.len()))?;
                one == two
            }
            (Self::List(one), Self::List(two)) => one.equals(two, budget)?,
            (Self::Map(one), Self::Map(two)) => {
                if one.len() != two.len() {
                    return Ok(false);
                }
                for (key, value) in one.iter() {
                    let Some(twin) = two.get(key) else { return Ok(false) };
                    if !value.equals(twin, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Duration(one), Self::Duration(two)) => one == two,
            (Self::Timestamp(one), Self::Timestamp(two)) => one == two,
            (Self::Type(one), Self::Type(two)) => one == two,
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(one)), Self::Optional(Some(two))) => one.equals(two, budget)?,
            (Self::Opaque(one), Self::Opaque(two)) => one.equals(&**two),
            _ => numbers(self, other) == Some(Some(Ordering::Equal)),
        })
    }

    /// The order of two values, or `None` for NaN.
    ///
    /// # Errors
    /// If the types have no order.
    pub(crate) fn order(&self, other: &Self, budget: &mut Budget) -> Result<Option<Ordering>, Error> {
        budget.charge(1)?;
        Ok(Some(match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::String(one), Self::String(two)) => {
                budget.charge_bytes(one.len().min(two.len()))?;
                one.cmp(two)
            }
            (Self::Bytes(one), Self::Bytes(two)) => {
                budget.charge_bytes(one.len().min(two.len()))?;
                one.cmp(two)
            }
            (Self::Duration(one), Self::Duration(two)) => one.cmp(two),
            (Self::Timestamp(one), Self::Timestamp(two)) => one.cmp(two),
            _ => return numbers(self, other).ok_or_else(|| Error::NoSuchOverload(String::new())),
        }))
    }
}

/// Compares two numbers of any types. Returns `None` if one of them is not a number.
fn numbers(one: &Value, two: &Value) -> Option<Option<Ordering>> {
    let whole = |value: &Value| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (one, two) {
        (Value::Double(one), Value::Double(two)) => Some(one.partial_cmp(two)),
        (Value::Double(one), two) => Some(double_and_whole(*one, whole(two)?)),
        (one, Value::Double(two)) => Some(double_and_whole(*two, whole(one)?).map(Ordering::reverse)),
        (one, two) => Some(Some(whole(one)?.cmp(&whole(two)?))),
    }
}

/// Compares a double with an integer. The result is exact, also for integers that a double cannot represent.
fn double_and_whole(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` keeps within the range, which is wider than any whole value"
    )]
    let floor = double.floor() as i128;
    Some(floor.cmp(&whole).then(if double.fract() == 0.0 { Ordering::Equal } else { Ordering::Greater }))
}
