//! CEL library for quantities: `quantity('1Gi').isLessThan(quantity('2Gi'))`.

use std::cmp::Ordering;

use cel::arguments::{own, text};
use cel::{Error, Function, Kind, Returns, Type, Value, function, method};

use super::foreign;
use crate::quantity::{Format, Quantity};

const NAME: &str = "kubernetes.Quantity";
const ONE: &[Kind] = &[Kind::Opaque(NAME)];
const TWO: &[Kind] = &[Kind::Opaque(NAME), Kind::Opaque(NAME)];
const AND_INT: &[Kind] = &[Kind::Opaque(NAME), Kind::Int];
const AMOUNT: Returns = Returns::Is(Type::Opaque(NAME));
const BOOL: Returns = Returns::Is(Type::Bool);
const INT: Returns = Returns::Is(Type::Int);

foreign!(Quantity, NAME);

pub(super) static FUNCTIONS: &[Function] = &[
    function("quantity", &[Kind::Text], AMOUNT, |of, budget| {
        let text = text(of, 0)?;
        budget.charge_bytes(text.len())?;
        let amount: Result<Quantity, _> = text.parse();
        amount.map(Value::opaque).map_err(|error| Error::failed(error.to_string()))
    }),
    function("isQuantity", &[Kind::Text], BOOL, |of, budget| {
        let text = text(of, 0)?;
        budget.charge_bytes(text.len())?;
        Ok(Value::Bool(text.parse::<Quantity>().is_ok()))
    }),
    method("isInteger", ONE, BOOL, |of, _| Ok(Value::Bool(one(of)?.is_whole()))),
    method("asInteger", ONE, INT, |of, _| match one(of)? {
        amount if amount.is_whole() => Ok(Value::Int(amount.units())),
        _ => Err(Error::failed("cannot convert value to integer")),
    }),
    #[expect(clippy::cast_precision_loss, reason = "the nearest number is what is asked for")]
    method("asApproximateFloat", ONE, Returns::Is(Type::Double), |of, _| {
        let amount = one(of)?;
        let number = if amount.is_whole() { amount.units() as f64 } else { amount.milli() as f64 / 1000.0 };
        Ok(Value::Double(number))
    }),
    method("sign", ONE, INT, |of, _| {
        let amount = one(of)?;
        Ok(Value::Int(if amount.is_zero() {
            0
        } else if amount.is_negative() {
            -1
        } else {
            1
        }))
    }),
    method("add", TWO, AMOUNT, |of, _| Ok(Value::opaque(one(of)?.plus(*own(of, 1)?)))),
    method("add", AND_INT, AMOUNT, |of, _| Ok(Value::opaque(one(of)?.plus(whole(of, 1)?)))),
    method("sub", TWO, AMOUNT, |of, _| {
        let less: &Quantity = own(of, 1)?;
        Ok(Value::opaque(one(of)?.minus(*less)))
    }),
    method("sub", AND_INT, AMOUNT, |of, _| Ok(Value::opaque(one(of)?.minus(whole(of, 1)?)))),
    method("isLessThan", TWO, BOOL, |of, _| Ok(Value::Bool(compare(of)?.is_lt()))),
    method("isGreaterThan", TWO, BOOL, |of, _| Ok(Value::Bool(compare(of)?.is_gt()))),
    method("compareTo", TWO, INT, |of, _| Ok(Value::Int(compare(of)? as i64))),
    function("string", ONE, Returns::Is(Type::String), |of, _| Ok(Value::from(one(of)?.to_string()))),
];

fn one(of: &[Value]) -> Result<Quantity, Error> {
    own(of, 0).copied()
}

fn whole(of: &[Value], at: usize) -> Result<Quantity, Error> {
    match of.get(at) {
        Some(Value::Int(units)) => Ok(Quantity::from_units(*units, Format::DecimalSi)),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn compare(of: &[Value]) -> Result<Ordering, Error> {
    let other: &Quantity = own(of, 1)?;
    Ok(one(of)?.cmp(other))
}
