//! A page of names and values, aligned section by section as kubectl does it.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

/// Lines waiting to be aligned.
#[derive(Debug, Default)]
pub struct Page {
    out: String,
    /// Lines of one block, whose values stand under each other: indent, name, value.
    block: Vec<(usize, String, String)>,
}

impl Page {
    /// `name: value`.
    pub fn field(&mut self, indent: usize, name: &str, value: &str) {
        self.row(indent, &format!("{name}:"), value);
    }

    /// `name: value`, where there is a value.
    pub fn filled(&mut self, indent: usize, name: &str, value: &str) {
        if !value.is_empty() {
            self.field(indent, name, value);
        }
    }

    /// Two cells.
    pub fn row(&mut self, indent: usize, name: &str, value: &str) {
        self.block.push((indent, name.to_owned(), value.to_owned()));
    }

    /// `name:` and a line for each value, or `<none>`.
    pub fn lines(&mut self, indent: usize, name: &str, values: Vec<String>) {
        let mut name = format!("{name}:");
        if values.is_empty() {
            return self.row(indent, &name, "<none>");
        }
        for value in values {
            self.row(indent, &name, &value);
            name.clear();
        }
    }

    /// `name:` alone; what follows is aligned on its own.
    pub fn head(&mut self, indent: usize, name: &str) {
        self.align();
        self.out.push_str(&format!("{:indent$}{name}:\n", ""));
    }

    /// A line as it is.
    pub fn line(&mut self, indent: usize, text: &str) {
        self.align();
        self.out.push_str(&format!("{:indent$}{text}\n", ""));
    }

    /// The whole page.
    pub fn finish(mut self) -> String {
        self.align();
        self.out
    }

    fn align(&mut self) {
        let width = |(indent, name, _): &(usize, String, String)| indent + name.chars().count();
        let widest = self.block.iter().map(width).max().unwrap_or_default();
        for (indent, name, value) in self.block.drain(..) {
            let fill = widest + 2 - indent - name.chars().count();
            let line = format!("{:indent$}{name}{:fill$}{value}", "", "");
            self.out.push_str(line.trim_end());
            self.out.push('\n');
        }
    }
}

/// The text there, empty when there is none.
pub fn string<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The members of the list there.
pub fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Names and values of a map, a line each, in order.
pub fn pairs(map: Option<&Value>, between: &str) -> Vec<String> {
    let map = map.and_then(Value::as_object);
    let mut lines: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            format!("{name}{between}{}", value.as_str().map_or(value.to_string(), str::to_owned))
        })
        .collect();
    lines.sort();
    lines
}

/// A time as people write it, in UTC; the text itself when it is none.
pub fn time(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
        Err(_) => text.to_owned(),
    }
}
