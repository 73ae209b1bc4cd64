//! Parses JSON, with the position of each value.

use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::Value;

use super::text::{CHECK_NESTING, SyntaxError, TOO_DEEP};
use super::value::{DecodeLimits, TOO_MUCH};

/// A value and the byte offset at which it starts.
#[derive(Debug)]
pub(super) struct Parsed {
    pub value: Value,
    pub start: usize,
}

/// Parses all values of a text; several JSON documents may follow each other.
pub(super) fn parse(text: &str, limits: &DecodeLimits) -> Result<Vec<Parsed>, SyntaxError> {
    let mut values = Vec::new();
    let mut start = 0;
    loop {
        let rest = &text[start..];
        start += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        if start == text.len() {
            return Ok(values);
        }
        let mut json = serde_json::Deserializer::from_str(&text[start..]);
        let value = limits.deserialize(&mut json).map_err(|error| syntax_error(&error, &text[..start]))?;
        values.push(Parsed { value, start });
        start += json.into_iter::<IgnoredAny>().byte_offset();
    }
}

fn syntax_error(error: &serde_json::Error, before: &str) -> SyntaxError {
    let message = error.to_string();
    let (mut what, _) = message.rsplit_once(" at line ").unwrap_or((&message, ""));
    let remedy = if error.is_eof() {
        "complete the file: it looks truncated"
    } else if what.ends_with("is defined twice") {
        "keep one of them"
    } else if what.starts_with("recursion limit") {
        what = TOO_DEEP;
        CHECK_NESTING
    } else if what.starts_with(TOO_MUCH) {
        "split it into several files"
    } else {
        "correct the JSON here"
    };
    let lines_before = before.matches('\n').count();
    let columns_before =
        if error.line() > 1 { 0 } else { before.rsplit('\n').next().unwrap_or(before).chars().count() };
    SyntaxError {
        line: u32::try_from(error.line().max(1) + lines_before).unwrap_or(u32::MAX),
        column: u32::try_from(error.column().max(1) + columns_before).unwrap_or(u32::MAX),
        what: what.to_owned(),
        remedy: remedy.to_owned(),
    }
}
