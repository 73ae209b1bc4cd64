//! Values without parts: strings, numbers, amounts, times, bytes.

use serde_json::Value;

use super::types::Kind;
use crate::fault::{Aim, Faults};
use crate::path::Path;
use crate::quantity::Quantity;

/// The part of a long text that a message shows, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// Checks and repairs a value; one that is beyond repair becomes `null`.
pub(super) fn check(of: &Kind, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    let before = faults.len();
    repair(of, value, path, faults);
    if faults.len() > before {
        *value = Value::Null;
    }
}

fn repair(of: &Kind, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    match (of, &mut *value) {
        (Kind::String, Value::String(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Double, Value::Number(_))
        | (Kind::IntOrString, Value::String(_)) => {}
        (Kind::Int32 | Kind::IntOrString, Value::Number(_)) => {
            integer(value, path, faults, i64::from(i32::MIN), i64::from(i32::MAX))
        }
        (Kind::Int64, Value::Number(_)) => integer(value, path, faults, i64::MIN, i64::MAX),
        (Kind::Quantity, Value::Number(number)) => *value = Value::String(plain(number)),
        (Kind::Quantity, Value::String(text)) => quantity(text, path, faults),
        (Kind::Time | Kind::MicroTime, Value::String(text)) => time(text, path, faults),
        (Kind::Bytes, Value::String(text)) => bytes(text, path, faults),
        (_, found) => wrong_type(of, found, path, faults),
    }
}

fn wrong_type(of: &Kind, found: &Value, path: &Path<'_>, faults: &mut Faults) {
    let what = format!("expected {}, found {}", of.described(), described(found));
    let textual = matches!(of, Kind::String | Kind::Bytes | Kind::Time | Kind::MicroTime);
    match found {
        Value::Bool(_) | Value::Number(_) if textual => {
            faults.aim(path, Aim::Unquoted, what, "put it in quotes");
        }
        Value::String(text) if matches!(of, Kind::Int32 | Kind::Int64) && text.parse::<i64>().is_ok() => {
            faults.add(path, what, format!("remove the quotes: {text}"));
        }
        Value::String(text) if *of == Kind::Bool => {
            let remedy = match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => "write true, without quotes",
                "false" | "no" | "off" | "0" => "write false, without quotes",
                _ => "write true or false",
            };
            faults.add(path, what, remedy);
        }
        Value::Array(elements) if elements.len() == 1 => {
            faults.add(path, what, "remove the `- ` or the brackets")
        }
        _ => faults.add(path, what, format!("write {}", of.described())),
    }
}

/// A whole number between `least` and `most`. A fraction of nothing, as in `80.0`, is dropped.
fn integer(value: &mut Value, path: &Path<'_>, faults: &mut Faults, least: i64, most: i64) {
    let whole = value.as_i64().or_else(|| {
        let float = value.as_f64().filter(|_| value.is_f64())?;
        // Beyond 2^53 a float says no exact number.
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
    });
    match whole {
        Some(whole) if (least..=most).contains(&whole) => *value = Value::from(whole),
        Some(_) => faults.add(
            path,
            format!("{value} is out of range"),
            format!("write a number from {least} to {most}"),
        ),
        None if value.is_f64() && value.as_f64().is_some_and(|float| float.fract() != 0.0) => {
            faults.add(path, format!("expected a whole number, found {value}"), "round it");
        }
        None => faults.add(
            path,
            format!("{value} is out of range"),
            format!("write a number from {least} to {most}"),
        ),
    }
}

/// A number as it would stand in an amount: without an exponent, `1` rather than `1.0`.
fn plain(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format!("{float}"),
        _ => number.to_string(),
    }
}

fn quantity(text: &str, path: &Path<'_>, faults: &mut Faults) {
    if let Err(error) = text.parse::<Quantity>() {
        let spaceless: String = text.split_whitespace().collect();
        let decimal = spaceless.trim_end_matches(['b', 'B']);
        let remedy = match [spaceless.as_str(), decimal, &decimal.replace('K', "k")]
            .into_iter()
            .find(|candidate| *candidate != text && candidate.parse::<Quantity>().is_ok())
        {
            Some(candidate) => format!("did you mean `{candidate}`?"),
            None => {
                "write a number, perhaps with one of m, k, M, G, T, Ki, Mi, Gi, Ti behind it: 500m, 1.5Gi"
                    .to_owned()
            }
        };
        faults.add(path, format!("`{}` is no amount: it {error}", shortened(text)), remedy);
    }
}

fn time(text: &str, path: &Path<'_>, faults: &mut Faults) {
    if text.parse::<jiff::Timestamp>().is_err() {
        faults.add(path, format!("`{}` is no time", shortened(text)), "write it like 2006-01-02T15:04:05Z");
    }
}

/// Base64, which may be broken into lines.
fn bytes(text: &mut String, path: &Path<'_>, faults: &mut Faults) {
    use base64::Engine as _;
    if text.contains(['\n', '\r']) {
        text.retain(|character| !matches!(character, '\n' | '\r'));
    }
    if base64::engine::general_purpose::STANDARD.decode(&*text).is_err() {
        // The value may be a secret in plain text: it is not shown.
        faults.add(
            path,
            "the value is not base64",
            "encode it (`base64 -w0`), or write it as it is under `stringData` of a Secret or `data` of a ConfigMap",
        );
    }
}

/// What a value is, for messages; short enough for a line.
pub(super) fn described(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => format!("the string \"{}\"", shortened(text).escape_debug()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
