//! Accessors of timestamps and durations.

use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

use crate::arguments;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, method};
use crate::types::Type;
use crate::value::Value;

const INT: Returns = Returns::Is(Type::Int);
const MOMENT: &[Kind] = &[Kind::Timestamp];
const IN_ZONE: &[Kind] = &[Kind::Timestamp, Kind::Text];
const TIME: &[Kind] = &[Kind::Duration];

pub(super) static FUNCTIONS: &[Function] = &[
    method("getFullYear", MOMENT, INT, |of, _| year(of)),
    method("getFullYear", IN_ZONE, INT, |of, _| year(of)),
    method("getMonth", MOMENT, INT, |of, _| month(of)),
    method("getMonth", IN_ZONE, INT, |of, _| month(of)),
    method("getDate", MOMENT, INT, |of, _| day(of, 0)),
    method("getDate", IN_ZONE, INT, |of, _| day(of, 0)),
    method("getDayOfMonth", MOMENT, INT, |of, _| day(of, 1)),
    method("getDayOfMonth", IN_ZONE, INT, |of, _| day(of, 1)),
    method("getDayOfWeek", MOMENT, INT, |of, _| weekday(of)),
    method("getDayOfWeek", IN_ZONE, INT, |of, _| weekday(of)),
    method("getDayOfYear", MOMENT, INT, |of, _| day_of_year(of)),
    method("getDayOfYear", IN_ZONE, INT, |of, _| day_of_year(of)),
    method("getHours", MOMENT, INT, |of, _| hours(of)),
    method("getHours", IN_ZONE, INT, |of, _| hours(of)),
    method("getHours", TIME, INT, |of, _| units(of, 3_600_000_000_000)),
    method("getMinutes", MOMENT, INT, |of, _| minutes(of)),
    method("getMinutes", IN_ZONE, INT, |of, _| minutes(of)),
    method("getMinutes", TIME, INT, |of, _| units(of, 60_000_000_000)),
    method("getSeconds", MOMENT, INT, |of, _| seconds(of)),
    method("getSeconds", IN_ZONE, INT, |of, _| seconds(of)),
    method("getSeconds", TIME, INT, |of, _| units(of, 1_000_000_000)),
    method("getMilliseconds", MOMENT, INT, |of, _| milliseconds(of)),
    method("getMilliseconds", IN_ZONE, INT, |of, _| milliseconds(of)),
    method("getMilliseconds", TIME, INT, |of, _| units(of, 1_000_000)),
];

/// True for a function that takes a time zone as an optional argument.
pub(super) fn is_calendar(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

/// Parses a time zone: UTC or a fixed offset. Names are not supported, because they need the time zone database.
pub(super) fn zone(name: &str) -> Result<TimeZone, Error> {
    let wrong = || Error::failed(format!("unknown time zone {name:?}: use UTC or an offset such as +02:00"));
    if matches!(name, "" | "UTC" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+').unwrap_or(name)),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let number =
        |text: &str| text.parse::<i32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let hours = number(hours).filter(|hours| *hours < 24).ok_or_else(wrong)?;
    let minutes = number(minutes).filter(|minutes| *minutes < 60).ok_or_else(wrong)?;
    let offset = Offset::from_seconds(sign * (hours * 60 + minutes) * 60).map_err(|_| wrong())?;
    Ok(TimeZone::fixed(offset))
}

fn zoned(of: &[Value]) -> Result<Zoned, Error> {
    let Value::Timestamp(at) = &of[0] else { return Err(Error::NoSuchOverload(String::new())) };
    let zone = if of.len() > 1 { zone(arguments::text(of, 1)?)? } else { TimeZone::UTC };
    Ok(at.to_zoned(zone))
}

fn year(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.year().into()))
}

/// The month; 0 is January.
fn month(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(i64::from(zoned(of)?.month()) - 1))
}

/// The day of the month. It starts at 1 for `getDate`, and at 0 for `getDayOfMonth`.
fn day(of: &[Value], less: i64) -> Result<Value, Error> {
    Ok(Value::Int(i64::from(zoned(of)?.day()) - less))
}

/// The day of the week; 0 is Sunday.
fn weekday(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.weekday().to_sunday_zero_offset().into()))
}

/// The day of the year; 0 is January 1.
fn day_of_year(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(i64::from(zoned(of)?.day_of_year()) - 1))
}

fn hours(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.hour().into()))
}

fn minutes(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.minute().into()))
}

fn seconds(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.second().into()))
}

fn milliseconds(of: &[Value]) -> Result<Value, Error> {
    Ok(Value::Int(zoned(of)?.millisecond().into()))
}

/// Converts a duration to whole units.
fn units(of: &[Value], each: i64) -> Result<Value, Error> {
    match &of[0] {
        Value::Duration(nanos) => Ok(Value::Int(nanos / each)),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}
