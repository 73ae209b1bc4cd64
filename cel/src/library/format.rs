//! String formatting: `'%s has %d'.format([name, count])`.

use std::fmt::Write as _;

use crate::arguments;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, method};
use crate::types::Type;
use crate::value::Value;

/// Limit for the digits after the decimal point.
const MAX_PRECISION: usize = 100;

pub(super) static FUNCTIONS: &[Function] =
    &[method("format", &[Kind::Text, Kind::List], Returns::Is(Type::String), format)];

fn format(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let (template, arguments) = (arguments::text(of, 0)?, &arguments::list(of, 1)?.items);
    budget.charge_bytes(template.len())?;
    let mut arguments = arguments.iter();
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(tail) = tail.strip_prefix('%') {
            text.push('%');
            rest = tail;
            continue;
        }
        let (precision, tail) = match tail.strip_prefix('.') {
            None => (None, tail),
            Some(tail) => {
                let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                let precision = tail[..end].parse().ok().filter(|precision| *precision <= MAX_PRECISION);
                (
                    Some(precision.ok_or_else(|| Error::failed("could not parse formatting clause"))?),
                    &tail[end..],
                )
            }
        };
        let clause =
            tail.chars().next().ok_or_else(|| Error::failed("unexpected end of formatting clause"))?;
        let argument = arguments.next().ok_or_else(|| Error::failed("index out of range in format"))?;
        let before = text.len();
        write(&mut text, clause, precision, argument, budget)?;
        budget.charge_bytes(text.len() - before)?;
        rest = &tail[clause.len_utf8()..];
    }
    text.push_str(rest);
    Ok(Value::from(text))
}

fn write(
    text: &mut String,
    clause: char,
    precision: Option<usize>,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), Error> {
    let wrong =
        || Error::failed(format!("error during formatting: %{clause} does not take {}", value.type_name()));
    #[expect(clippy::cast_precision_loss, reason = "the nearest number is what is shown")]
    let number = || match value {
        Value::Double(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        Value::Uint(value) => Ok(*value as f64),
        _ => Err(wrong()),
    };
    let precision = precision.unwrap_or(6);
    let written = match (clause, value) {
        ('s', value) => return show(text, value, budget),
        ('d', Value::Int(value)) => write!(text, "{value}"),
        ('d', Value::Uint(value)) => write!(text, "{value}"),
        ('f', _) => write!(text, "{:.precision$}", number()?),
        ('e', _) => write!(text, "{:.precision$e}", number()?),
        ('b', Value::Bool(value)) => write!(text, "{}", u8::from(*value)),
        ('b', Value::Int(value)) if *value < 0 => write!(text, "-{:b}", value.unsigned_abs()),
        ('b', Value::Int(value)) => write!(text, "{value:b}"),
        ('b', Value::Uint(value)) => write!(text, "{value:b}"),
        ('o', Value::Int(value)) if *value < 0 => write!(text, "-{:o}", value.unsigned_abs()),
        ('o', Value::Int(value)) => write!(text, "{value:o}"),
        ('o', Value::Uint(value)) => write!(text, "{value:o}"),
        ('x', Value::Int(value)) if *value < 0 => write!(text, "-{:x}", value.unsigned_abs()),
        ('x', Value::Int(value)) => write!(text, "{value:x}"),
        ('x', Value::Uint(value)) => write!(text, "{value:x}"),
        ('X', Value::Int(value)) if *value < 0 => write!(text, "-{:X}", value.unsigned_abs()),
        ('X', Value::Int(value)) => write!(text, "{value:X}"),
        ('X', Value::Uint(value)) => write!(text, "{value:X}"),
        ('x' | 'X', Value::String(_) | Value::Bytes(_)) => {
            let bytes = match value {
                Value::String(text) => text.as_bytes(),
                Value::Bytes(bytes) => bytes,
                _ => &[],
            };
            for byte in bytes {
                let shown = if clause == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
                text.push_str(&shown);
            }
            Ok(())
        }
        _ => return Err(wrong()),
    };
    written.map_err(|_| wrong())
}

/// Formats a value as text, including the elements of lists and maps.
fn show(text: &mut String, value: &Value, budget: &mut Budget) -> Result<(), Error> {
    budget.charge(1)?;
    match value {
        Value::List(list) => {
            text.push('[');
            for (at, item) in list.items.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                show(text, item, budget)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                text.push_str(&key.to_string());
                text.push_str(": ");
                show(text, value, budget)?;
            }
            text.push('}');
        }
        single => {
            let shown = single.text()?;
            budget.charge_bytes(shown.len())?;
            text.push_str(&shown);
        }
    }
    Ok(())
}
