//! Decodes scalars: strings, numbers, and messages that are a string or a number in JSON.

use base64::Engine as _;
use serde_json::Value;

use super::decoder::broken;
use super::error::Error;
use super::wire::{Reader, Wire};
use crate::path::Path;
use crate::schema::Kind;

/// The first and last second that RFC 3339 can represent.
const SECONDS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Decodes a value. An empty time is `null`.
pub(super) fn value(of: &Kind, wire: Wire<'_>, path: &Path<'_>) -> Result<Value, Error> {
    match of {
        Kind::String => Ok(text(wire, path)?.into()),
        Kind::Bool => Ok((number(wire, path)? != 0).into()),
        // Truncated as in Go.
        Kind::Int32 => Ok((number(wire, path)? as i32).into()),
        Kind::Int64 => Ok(number(wire, path)?.into()),
        Kind::Double => double(wire, path),
        Kind::Bytes => Ok(base64::engine::general_purpose::STANDARD.encode(bytes(wire, path)?).into()),
        Kind::Quantity => quantity(wire, path),
        Kind::IntOrString => int_or_string(wire, path),
        Kind::Time => time(wire, false, path),
        Kind::MicroTime => time(wire, true, path),
        // The caller decodes these types.
        Kind::Any | Kind::Object(_) | Kind::OneOf(_) | Kind::List(_) | Kind::Map(_) => Ok(Value::Null),
    }
}

/// Returns the bytes of a string, bytes or message field.
pub(super) fn bytes<'a>(wire: Wire<'a>, path: &Path<'_>) -> Result<&'a [u8], Error> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        found => Err(wrong("text, bytes or a message", found, path)),
    }
}

/// Decodes a string.
pub(super) fn text<'a>(wire: Wire<'a>, path: &Path<'_>) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes(wire, path)?).map_err(|_| Error::Text { path: path.to_owned() })
}

/// Returns the bytes of field 1 of a message.
pub(super) fn first<'a>(wire: Wire<'a>, path: &Path<'_>) -> Result<&'a [u8], Error> {
    let mut found: &[u8] = &[];
    for_each(wire, path, |number, wire| {
        if number == 1 {
            found = bytes(wire, path)?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Decodes a value that is encoded as JSON.
pub(super) fn json(raw: &[u8], path: &Path<'_>) -> Result<Value, Error> {
    serde_json::from_slice(raw).map_err(|source| Error::Json { path: path.to_owned(), source })
}

fn number(wire: Wire<'_>, path: &Path<'_>) -> Result<i64, Error> {
    match wire {
        Wire::Varint(number) => Ok(number.cast_signed()),
        found => Err(wrong("a whole number or a bool", found, path)),
    }
}

fn double(wire: Wire<'_>, path: &Path<'_>) -> Result<Value, Error> {
    let Wire::Fixed64(bits) = wire else { return Err(wrong("a number of eight bytes", wire, path)) };
    let number = f64::from_bits(bits);
    // Integral values are written without a fraction, as Go does. Beyond 2^53 they are not exact.
    if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 {
        return Ok((number as i64).into());
    }
    let number =
        serde_json::Number::from_f64(number).ok_or_else(|| Error::Number { path: path.to_owned() })?;
    Ok(Value::Number(number))
}

/// Decodes a quantity, which is a message with its text. A missing text is `0`.
fn quantity(wire: Wire<'_>, path: &Path<'_>) -> Result<Value, Error> {
    match text(Wire::Bytes(first(wire, path)?), path)? {
        "" => Ok("0".into()),
        amount => Ok(amount.into()),
    }
}

/// Decodes an int-or-string: a message with a type, an integer and a string.
fn int_or_string(wire: Wire<'_>, path: &Path<'_>) -> Result<Value, Error> {
    let (mut is_text, mut whole, mut string) = (false, 0, "");
    for_each(wire, path, |field, wire| {
        match field {
            1 => is_text = number(wire, path)? == 1,
            2 => whole = number(wire, path)? as i32,
            3 => string = text(wire, path)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(if is_text { string.into() } else { whole.into() })
}

/// Decodes a time: a message with seconds since 1970 and nanoseconds. An empty message is `null`. A `Time` has no
/// fractional seconds.
fn time(wire: Wire<'_>, micros: bool, path: &Path<'_>) -> Result<Value, Error> {
    if bytes(wire, path)?.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for_each(wire, path, |field, wire| {
        match field {
            1 => seconds = number(wire, path)?,
            2 => nanos = i64::from(number(wire, path)? as i32),
            _ => {}
        }
        Ok(())
    })?;
    let out_of_range = || Error::Time { path: path.to_owned() };
    if micros {
        seconds = seconds.checked_add(nanos.div_euclid(1_000_000_000)).ok_or_else(out_of_range)?;
    }
    if !SECONDS.contains(&seconds) {
        return Err(out_of_range());
    }
    let whole = jiff::Timestamp::from_second(seconds).map_err(|_| out_of_range())?;
    let whole = whole.strftime("%Y-%m-%dT%H:%M:%S");
    Ok(if micros {
        format!("{whole}.{:06}Z", nanos.rem_euclid(1_000_000_000) / 1000).into()
    } else {
        format!("{whole}Z").into()
    })
}

fn for_each<'a>(
    wire: Wire<'a>,
    path: &Path<'_>,
    mut visit: impl FnMut(u32, Wire<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes(wire, path)?);
    while let Some((number, wire)) = reader.field().map_err(|why| broken(why, path))? {
        visit(number, wire)?;
    }
    Ok(())
}

fn wrong(expected: &'static str, found: Wire<'_>, path: &Path<'_>) -> Error {
    Error::WireType { path: path.to_owned(), expected, found: found.described() }
}
