//! Type conversions: numbers, strings, timestamps and durations.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;

use crate::arguments;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function, method};
use crate::types::Type;
use crate::value::Value;

const INT: Returns = Returns::Is(Type::Int);
const TEXT: Returns = Returns::Is(Type::String);

pub(super) static FUNCTIONS: &[Function] = &[
    function("size", &[Kind::Text], INT, size),
    function("size", &[Kind::Bytes], INT, size),
    function("size", &[Kind::List], INT, size),
    function("size", &[Kind::Map], INT, size),
    method("size", &[Kind::Text], INT, size),
    method("size", &[Kind::Bytes], INT, size),
    method("size", &[Kind::List], INT, size),
    method("size", &[Kind::Map], INT, size),
    function("int", &[Kind::Any], INT, int),
    function("uint", &[Kind::Any], Returns::Is(Type::Uint), uint),
    function("double", &[Kind::Any], Returns::Is(Type::Double), double),
    function("string", &[Kind::Any], TEXT, string),
    function("bool", &[Kind::Any], Returns::Is(Type::Bool), bool),
    function("bytes", &[Kind::Any], Returns::Is(Type::Bytes), bytes),
    function("dyn", &[Kind::Any], Returns::Is(Type::Dyn), |of, _| Ok(of[0].clone())),
    function("type", &[Kind::Any], Returns::Is(Type::Type), |of, _| {
        Ok(Value::Type(of[0].type_name().into()))
    }),
    function("duration", &[Kind::Text], Returns::Is(Type::Duration), |of, budget| {
        let text = arguments::text(of, 0)?;
        budget.charge_bytes(text.len())?;
        duration(text).map(Value::Duration)
    }),
    function("duration", &[Kind::Duration], Returns::Is(Type::Duration), |of, _| Ok(of[0].clone())),
    function("timestamp", &[Kind::Text], Returns::Is(Type::Timestamp), |of, budget| {
        let text = arguments::text(of, 0)?;
        budget.charge_bytes(text.len())?;
        moment(text).map(Value::Timestamp)
    }),
    function("timestamp", &[Kind::Timestamp], Returns::Is(Type::Timestamp), |of, _| Ok(of[0].clone())),
    function("timestamp", &[Kind::Int], Returns::Is(Type::Timestamp), |of, _| {
        let at = Timestamp::from_second(arguments::int(of, 0)?);
        at.map(Value::Timestamp).map_err(|_| Error::failed("timestamp out of range"))
    }),
    function("base64.encode", &[Kind::Bytes], TEXT, |of, budget| match &of[0] {
        Value::Bytes(bytes) => {
            budget.charge_bytes(bytes.len())?;
            Ok(Value::from(BASE64_STANDARD.encode(bytes)))
        }
        _ => Err(Error::NoSuchOverload(String::new())),
    }),
    function("base64.decode", &[Kind::Text], Returns::Is(Type::Bytes), |of, budget| {
        let text = arguments::text(of, 0)?;
        budget.charge_bytes(text.len())?;
        let bytes = BASE64_STANDARD.decode(text);
        let bytes = bytes.map_err(|error| Error::failed(format!("illegal base64 data: {error}")))?;
        Ok(Value::Bytes(bytes.into()))
    }),
];

fn size(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    Ok(Value::from(match &of[0] {
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            text.chars().count()
        }
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.len(),
        _ => return Err(Error::NoSuchOverload(String::new())),
    }))
}

fn range() -> Error {
    Error::failed("integer overflow")
}

fn wrong(of: &Value, name: &str) -> Error {
    Error::NoSuchOverload(format!("{name}({})", of.type_name()))
}

fn int(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let value = match &of[0] {
        Value::Int(value) => Ok(*value),
        Value::Uint(value) => i64::try_from(*value).map_err(|_| range()),
        Value::Double(value) => number(*value).and_then(|value| i64::try_from(value).map_err(|_| range())),
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            text.parse().map_err(|_| Error::failed(format!("cannot convert {text:?} to int")))
        }
        Value::Timestamp(at) => Ok(at.as_second()),
        Value::Duration(nanos) => Ok(nanos / 1_000_000_000),
        other => Err(wrong(other, "int")),
    };
    value.map(Value::Int)
}

fn uint(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let value = match &of[0] {
        Value::Uint(value) => Ok(*value),
        Value::Int(value) => u64::try_from(*value).map_err(|_| range()),
        Value::Double(value) => number(*value).and_then(|value| u64::try_from(value).map_err(|_| range())),
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            text.parse().map_err(|_| Error::failed(format!("cannot convert {text:?} to uint")))
        }
        other => Err(wrong(other, "uint")),
    };
    value.map(Value::Uint)
}

/// The integral part of a number.
fn number(value: f64) -> Result<i128, Error> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` keeps within the range, and only the whole part is meant"
    )]
    let whole = value as i128;
    if value.is_finite() { Ok(whole) } else { Err(range()) }
}

#[expect(clippy::cast_precision_loss, reason = "the nearest number is what is meant")]
fn double(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let value = match &of[0] {
        Value::Double(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        Value::Uint(value) => Ok(*value as f64),
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            text.parse().map_err(|_| Error::failed(format!("cannot convert {text:?} to double")))
        }
        other => Err(wrong(other, "double")),
    };
    value.map(Value::Double)
}

fn string(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    if let Value::String(_) = &of[0] {
        return Ok(of[0].clone());
    }
    let text = of[0].text()?;
    budget.charge_bytes(text.len())?;
    Ok(Value::from(text))
}

fn bool(of: &[Value], _: &mut Budget) -> Result<Value, Error> {
    match &of[0] {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(Error::failed(format!("cannot convert {text:?} to bool"))),
        },
        other => Err(wrong(other, "bool")),
    }
}

fn bytes(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    match &of[0] {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        other => Err(wrong(other, "bytes")),
    }
}

/// Parses an RFC 3339 timestamp.
pub(crate) fn moment(text: &str) -> Result<Timestamp, Error> {
    text.parse().map_err(|_| Error::failed(format!("cannot parse {text:?} as a timestamp")))
}

/// Parses a duration in Go notation (`1h30m`, `-1.5s`), in nanoseconds.
///
/// # Errors
/// If the text is invalid or the duration is too long.
pub fn duration(text: &str) -> Result<i64, Error> {
    let wrong = || Error::failed(format!("time: invalid duration {text:?}"));
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(wrong());
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
        nanos = whole.checked_mul(unit).and_then(|part| nanos.checked_add(part)).ok_or_else(wrong)?;
        let mut part = unit;
        for digit in fraction.chars() {
            part /= 10;
            let digit = i128::from(digit.to_digit(10).ok_or_else(wrong)?);
            nanos = nanos.checked_add(digit * part).ok_or_else(wrong)?;
        }
        rest = tail;
    }
    i64::try_from(nanos * sign).map_err(|_| wrong())
}
