//! Evaluates operators on values.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::ast::Operator;
use crate::budget::Budget;
use crate::error::Error;
use crate::value::{Key, Value};

pub(crate) fn negate(of: &Value) -> Result<Value, Error> {
    match of {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(nanos) => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

pub(crate) fn binary(
    operator: Operator,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value, Error> {
    let mut ordered =
        |is: fn(Ordering) -> bool| left.order(right, budget).map(|order| Value::Bool(order.is_some_and(is)));
    match operator {
        Operator::Equal => left.equals(right, budget).map(Value::Bool),
        Operator::NotEqual => left.equals(right, budget).map(|is_same| Value::Bool(!is_same)),
        Operator::Less => ordered(Ordering::is_lt),
        Operator::LessOrEqual => ordered(Ordering::is_le),
        Operator::Greater => ordered(Ordering::is_gt),
        Operator::GreaterOrEqual => ordered(Ordering::is_ge),
        Operator::In => contains(left, right, budget).map(Value::Bool),
        Operator::Add => add(left, right, budget),
        Operator::Subtract => subtract(left, right),
        Operator::Multiply => match (left, right) {
            (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one * two)),
            _ => whole(left, right, overflow, i64::checked_mul, u64::checked_mul),
        },
        Operator::Divide => match (left, right) {
            (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one / two)),
            (_, Value::Int(0) | Value::Uint(0)) => Err(Error::failed("division by zero")),
            _ => whole(left, right, overflow, i64::checked_div, u64::checked_div),
        },
        Operator::Modulo => match (left, right) {
            (_, Value::Int(0) | Value::Uint(0)) => Err(Error::failed("modulus by zero")),
            _ => whole(left, right, overflow, i64::checked_rem, u64::checked_rem),
        },
    }
}

fn overflow() -> Error {
    Error::failed("integer overflow")
}

fn whole(
    left: &Value,
    right: &Value,
    overflow: fn() -> Error,
    int: fn(i64, i64) -> Option<i64>,
    uint: fn(u64, u64) -> Option<u64>,
) -> Result<Value, Error> {
    match (left, right) {
        (Value::Int(one), Value::Int(two)) => int(*one, *two).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(two)) => uint(*one, *two).map(Value::Uint).ok_or_else(overflow),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn contains(item: &Value, of: &Value, budget: &mut Budget) -> Result<bool, Error> {
    match of {
        Value::List(list) => {
            for other in &list.items {
                if other.equals(item, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(Key::of(item).is_ok_and(|key| map.get(&key).is_some())),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn add(left: &Value, right: &Value, budget: &mut Budget) -> Result<Value, Error> {
    match (left, right) {
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one + two)),
        (Value::String(one), Value::String(two)) => {
            budget.charge_bytes(one.len() + two.len())?;
            Ok(Value::String([&**one, &**two].concat().into()))
        }
        (Value::Bytes(one), Value::Bytes(two)) => {
            budget.charge_bytes(one.len() + two.len())?;
            Ok(Value::Bytes([&**one, &**two].concat().into()))
        }
        (Value::List(one), Value::List(two)) => Ok(Value::List(Arc::new(one.plus(two, budget)?))),
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_add(*two).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(at), Value::Duration(nanos)) | (Value::Duration(nanos), Value::Timestamp(at)) => {
            moved(*at, *nanos)
        }
        _ => whole(left, right, overflow, i64::checked_add, u64::checked_add),
    }
}

fn subtract(left: &Value, right: &Value) -> Result<Value, Error> {
    match (left, right) {
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one - two)),
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_sub(*two).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(at), Value::Duration(nanos)) => {
            moved(*at, nanos.checked_neg().ok_or_else(overflow)?)
        }
        (Value::Timestamp(one), Value::Timestamp(two)) => {
            let nanos = one.duration_since(*two).as_nanos();
            i64::try_from(nanos).map(Value::Duration).map_err(|_| overflow())
        }
        _ => whole(left, right, overflow, i64::checked_sub, u64::checked_sub),
    }
}

fn moved(at: Timestamp, nanos: i64) -> Result<Value, Error> {
    at.checked_add(SignedDuration::from_nanos(nanos)).map(Value::Timestamp).map_err(|_| overflow())
}
