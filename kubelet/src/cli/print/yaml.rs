//! Writes JSON values as YAML in the style of kubectl: sorted keys, unindented lists, quotes only where needed.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Formats a document, with a trailing newline.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => object(&mut out, map, 0),
        Value::Array(list) if !list.is_empty() => array(&mut out, list, 0),
        other => {
            scalar(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

/// Sorts the keys of all maps in a value.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(String, Value)> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn object(out: &mut String, map: &Map<String, Value>, indent: usize) {
    for (at, (key, value)) in map.iter().enumerate() {
        // The first entry of a list item follows its dash on the same line.
        if at > 0 || out.is_empty() || out.ends_with('\n') {
            spaces(out, indent);
        }
        line(out, key);
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                object(out, inner, indent + 2);
            }
            Value::Array(inner) if !inner.is_empty() => {
                out.push('\n');
                array(out, inner, indent);
            }
            other => {
                out.push(' ');
                scalar(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn array(out: &mut String, list: &[Value], indent: usize) {
    for value in list {
        spaces(out, indent);
        out.push_str("- ");
        match value {
            Value::Object(inner) if !inner.is_empty() => object(out, inner, indent + 2),
            Value::Array(inner) if !inner.is_empty() => {
                out.pop();
                out.push('\n');
                array(out, inner, indent + 2);
            }
            other => {
                scalar(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(value) => text(out, value, indent),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn text(out: &mut String, text: &str, indent: usize) {
    if text.contains('\n') && fits_block(text) { block(out, text, indent) } else { line(out, text) }
}

/// Writes a scalar on one line. It is plain if that is safe, otherwise in the quotes that need fewer escapes.
fn line(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else if text.chars().any(needs_escape)
        || text.contains('\'') && !text.contains('"')
        || reads_as_other(text)
    {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c if needs_escape(c) => {
                    let _ = write!(out, "\\U{:08X}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        out.push('"');
    } else {
        let _ = write!(out, "'{}'", text.replace('\'', "''"));
    }
}

/// Characters that YAML does not accept unescaped, or treats as line breaks.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a multi-line text can be written as a `|` block scalar.
fn fits_block(text: &str) -> bool {
    !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| needs_escape(c) && c != '\n' && c != '\t')
        && !text.lines().any(|line| line.ends_with(' '))
}

fn block(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if !text.ends_with('\n') {
        out.push('-');
    } else if text.ends_with("\n\n") {
        out.push('+');
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            spaces(out, indent);
            out.push_str(line);
        }
    }
}

/// Whether a plain scalar reads back as the same string.
fn is_plain(text: &str) -> bool {
    let first_needs_quotes = text.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ',
        '~', '=',
    ]);
    let is_dashed_word =
        text.starts_with('-') && text.len() > 1 && !text.starts_with("---") && !text[1..].starts_with(' ');
    !text.is_empty()
        && (!first_needs_quotes || is_dashed_word)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.chars().any(needs_escape)
        && !reads_as_other(text)
}

/// Whether YAML 1.1 or 1.2 reads the plain scalar as a number, boolean, null or date.
fn reads_as_other(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word = matches!(
        lower.as_str(),
        "" | "~"
            | "null"
            | "true"
            | "false"
            | "yes"
            | "no"
            | "on"
            | "off"
            | "y"
            | "n"
            | ".inf"
            | "-.inf"
            | "+.inf"
            | ".nan"
            | "<<"
    );
    let unsigned = lower.trim_start_matches(['+', '-']);
    let number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.chars().any(|c| c.is_ascii_digit())
        && (unsigned
            .chars()
            .all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | '_' | 'x' | 'o' | '+' | '-' | ':'))
            || is_date(unsigned));
    word || number
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ':' | 't' | 'z' | '.' | '+' | ' '))
}

#[cfg(test)]
mod tests;
