//! Checks scalars: strings, numbers, quantities, times and bytes.

use serde_json::Value;

use super::types::Kind;
use crate::field_error::{FieldErrors, Target};
use crate::path::Path;
use crate::quantity::Quantity;

/// Limit for the characters of a string that a message shows.
const SHOWN_CHARACTERS: usize = 40;

/// Checks and normalizes a value. An invalid one becomes `null`.
pub(super) fn check(of: &Kind, value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let before = errors.len();
    repair(of, value, path, errors);
    if errors.len() > before {
        *value = Value::Null;
    }
}

fn repair(of: &Kind, value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (of, &mut *value) {
        (Kind::String, Value::String(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Double, Value::Number(_))
        | (Kind::IntOrString, Value::String(_)) => {}
        (Kind::Int32 | Kind::IntOrString, Value::Number(_)) => {
            integer(value, path, errors, i64::from(i32::MIN), i64::from(i32::MAX))
        }
        (Kind::Int64, Value::Number(_)) => integer(value, path, errors, i64::MIN, i64::MAX),
        (Kind::Quantity, Value::Number(number)) => *value = Value::String(plain(number)),
        (Kind::Quantity, Value::String(text)) => quantity(text, path, errors),
        (Kind::Time | Kind::MicroTime, Value::String(text)) => time(text, path, errors),
        (Kind::Bytes, Value::String(text)) => bytes(text, path, errors),
        (_, found) => wrong_type(of, found, path, errors),
    }
}

fn wrong_type(of: &Kind, found: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let what = format!("expected {}, found {}", of.described(), described(found));
    let textual = matches!(of, Kind::String | Kind::Bytes | Kind::Time | Kind::MicroTime);
    match found {
        Value::Bool(_) | Value::Number(_) if textual => {
            errors.add_at(path, Target::Unquoted, what, "put it in quotes");
        }
        Value::String(text) if matches!(of, Kind::Int32 | Kind::Int64) && text.parse::<i64>().is_ok() => {
            errors.add(path, what, format!("remove the quotes: {text}"));
        }
        Value::String(text) if *of == Kind::Bool => {
            let remedy = match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => "write true, without quotes",
                "false" | "no" | "off" | "0" => "write false, without quotes",
                _ => "write true or false",
            };
            errors.add(path, what, remedy);
        }
        Value::Array(elements) if elements.len() == 1 => {
            errors.add(path, what, "remove the `- ` or the brackets")
        }
        _ => errors.add(path, what, format!("write {}", of.described())),
    }
}

/// Checks an integer between `least` and `most`. A zero fraction, as in `80.0`, is removed.
fn integer(value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors, least: i64, most: i64) {
    let whole = value.as_i64().or_else(|| {
        let float = value.as_f64().filter(|_| value.is_f64())?;
        // Beyond 2^53, a float is not exact.
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
    });
    match whole {
        Some(whole) if (least..=most).contains(&whole) => *value = Value::from(whole),
        Some(_) => errors.add(
            path,
            format!("{value} is out of range"),
            format!("write a number from {least} to {most}"),
        ),
        None if value.is_f64() && value.as_f64().is_some_and(|float| float.fract() != 0.0) => {
            errors.add(path, format!("expected a whole number, found {value}"), "round it");
        }
        None => errors.add(
            path,
            format!("{value} is out of range"),
            format!("write a number from {least} to {most}"),
        ),
    }
}

/// Formats a number as a quantity: without an exponent, `1` rather than `1.0`.
fn plain(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format!("{float}"),
        _ => number.to_string(),
    }
}

fn quantity(text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Err(error) = text.parse::<Quantity>() {
        let remedy = match likely_quantity(text) {
            Some(candidate) => format!("did you mean `{candidate}`?"),
            None => {
                "write a number, perhaps with one of m, k, M, G, T, Ki, Mi, Gi, Ti behind it: 500m, 1.5Gi"
                    .to_owned()
            }
        };
        errors.add(path, format!("`{}` is not a quantity: it {error}", shortened(text)), remedy);
    }
}

/// The quantity that was probably meant: `1G` for `1GB`. A lower-case unit is a power of 1024, as in the docker command
/// line: `128mb` is `128Mi`, not `128m`, which is an eighth of a byte.
fn likely_quantity(text: &str) -> Option<String> {
    let spaceless: String = text.split_whitespace().collect();
    let digits = spaceless.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = spaceless.split_at(digits);
    let is_lower = unit.starts_with(|c: char| c.is_ascii_lowercase());
    let binary = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "ki" | "kib" => "Ki",
        // `128m` is valid, so it does not get here.
        "mb" | "mi" | "mib" => "Mi",
        "g" | "gb" | "gi" | "gib" => "Gi",
        "t" | "tb" | "ti" | "tib" => "Ti",
        _ => "",
    };
    let decimal = spaceless.trim_end_matches(['b', 'B']);
    let lower_k = decimal.replace('K', "k");
    let binary = (!binary.is_empty()).then(|| format!("{number}{binary}"));
    let mut all = vec![spaceless.as_str()];
    if !is_lower || binary.is_none() {
        all.extend([decimal, lower_k.as_str()]);
    }
    all.extend(binary.as_deref());
    all.into_iter()
        .find(|candidate| *candidate != text && candidate.parse::<Quantity>().is_ok())
        .map(str::to_owned)
}

fn time(text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if text.parse::<jiff::Timestamp>().is_err() {
        errors.add(
            path,
            format!("`{}` is not a time", shortened(text)),
            "write it like 2006-01-02T15:04:05Z",
        );
    }
}

/// Checks base64, and removes its line breaks.
fn bytes(text: &mut String, path: &Path<'_>, errors: &mut FieldErrors) {
    use base64::Engine as _;
    if text.contains(['\n', '\r']) {
        text.retain(|character| !matches!(character, '\n' | '\r'));
    }
    if base64::engine::general_purpose::STANDARD.decode(&*text).is_err() {
        // The value may be a secret in plain text and must not be in the message.
        errors.add(
            path,
            "the value is not base64",
            "encode it (`base64 -w0`), or write it as it is under `stringData` of a Secret or `data` of a ConfigMap",
        );
    }
}

/// Returns a short description of a value for messages.
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
