//! Builds the aligned text of `kubelet describe`, in the layout of kubectl.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

/// The text under construction.
#[derive(Debug, Default)]
pub struct Page {
    out: String,
    /// Rows of the current section, which are aligned together: indent, name, value.
    block: Vec<(usize, String, String)>,
}

impl Page {
    /// Adds `name: value`.
    pub fn field(&mut self, indent: usize, name: &str, value: &str) {
        self.row(indent, &format!("{name}:"), value);
    }

    /// Adds `name: value` unless the value is empty.
    pub fn filled(&mut self, indent: usize, name: &str, value: &str) {
        if !value.is_empty() {
            self.field(indent, name, value);
        }
    }

    /// Adds a row of two cells.
    pub fn row(&mut self, indent: usize, name: &str, value: &str) {
        self.block.push((indent, name.to_owned(), value.to_owned()));
    }

    /// Adds `name:` and one line per value, or `<none>`.
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

    /// Adds `name:` as a heading. The rows after it form a new section.
    pub fn head(&mut self, indent: usize, name: &str) {
        self.align();
        self.out.push_str(&format!("{:indent$}{name}:\n", ""));
    }

    /// Adds a line without alignment.
    pub fn line(&mut self, indent: usize, text: &str) {
        self.align();
        self.out.push_str(&format!("{:indent$}{text}\n", ""));
    }

    /// The complete text.
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

/// The string at a JSON pointer; empty if it is absent or not a string.
pub fn string<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of the list at a JSON pointer.
pub fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// The entries of a map as lines, sorted by key.
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

/// Formats a timestamp like kubectl, in UTC. Other text is returned unchanged.
pub fn time(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
        Err(_) => text.to_owned(),
    }
}
