//! The math library: least, greatest, absolute value and rounding.

use std::cmp::Ordering;

use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function};
use crate::types::Type;
use crate::value::Value;

const LIST: &[Kind] = &[Kind::List];
const ONE: &[Kind] = &[Kind::Any];
const TWO: &[Kind] = &[Kind::Any, Kind::Any];
const THREE: &[Kind] = &[Kind::Any, Kind::Any, Kind::Any];
const DOUBLE: &[Kind] = &[Kind::Double];

pub(super) static FUNCTIONS: &[Function] = &[
    function("math.least", LIST, Returns::Inner, least),
    function("math.least", ONE, Returns::Is(Type::Dyn), least),
    function("math.least", TWO, Returns::Same, least),
    function("math.least", THREE, Returns::Same, least),
    function("math.greatest", LIST, Returns::Inner, greatest),
    function("math.greatest", ONE, Returns::Is(Type::Dyn), greatest),
    function("math.greatest", TWO, Returns::Same, greatest),
    function("math.greatest", THREE, Returns::Same, greatest),
    function("math.abs", ONE, Returns::Same, |of, _| match &of[0] {
        Value::Int(value) => {
            value.checked_abs().map(Value::Int).ok_or_else(|| Error::failed("integer overflow"))
        }
        Value::Uint(value) => Ok(Value::Uint(*value)),
        Value::Double(value) => Ok(Value::Double(value.abs())),
        other => Err(Error::NoSuchOverload(format!("math.abs({})", other.type_name()))),
    }),
    function("math.ceil", DOUBLE, Returns::Same, |of, _| rounded(of, f64::ceil)),
    function("math.floor", DOUBLE, Returns::Same, |of, _| rounded(of, f64::floor)),
    function("math.round", DOUBLE, Returns::Same, |of, _| rounded(of, f64::round)),
    function("math.trunc", DOUBLE, Returns::Same, |of, _| rounded(of, f64::trunc)),
];

fn rounded(of: &[Value], round: fn(f64) -> f64) -> Result<Value, Error> {
    match &of[0] {
        Value::Double(value) => Ok(Value::Double(round(*value))),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn least(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    best(of, Ordering::is_lt, budget)
}

fn greatest(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    best(of, Ordering::is_gt, budget)
}

fn best(of: &[Value], is: fn(Ordering) -> bool, budget: &mut Budget) -> Result<Value, Error> {
    let numbers = match of {
        [Value::List(list)] => &list.items,
        several => several,
    };
    let mut best: Option<&Value> = None;
    for number in numbers {
        if !matches!(number, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return Err(Error::NoSuchOverload(format!("math({})", number.type_name())));
        }
        let is_better = match best {
            None => true,
            Some(best) => number.order(best, budget)?.is_some_and(is),
        };
        best = if is_better { Some(number) } else { best };
    }
    best.cloned().ok_or_else(|| Error::failed("the list is empty"))
}
