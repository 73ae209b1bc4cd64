//! Finds the positions of values in valid JSON text.

use super::position::{Entry, Located, Node, Position};

/// Positions in the value that starts at byte `start` of `text`.
pub(super) fn of_json(text: &str, start: usize) -> Option<Located> {
    let mut cursor = Cursor { rest: "", line: 1, column: 1 };
    cursor.rest = text.get(..start)?;
    while cursor.bump().is_some() {}
    cursor.rest = text.get(start..)?;
    cursor.value()
}

struct Cursor<'a> {
    rest: &'a str,
    line: u32,
    column: u32,
}

impl Cursor<'_> {
    fn bump(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        if character == '\n' {
            (self.line, self.column) = (self.line.saturating_add(1), 1);
        } else {
            self.column = self.column.saturating_add(1);
        }
        Some(character)
    }

    /// The next non-blank character and its position.
    fn peek(&mut self) -> Option<(char, Position)> {
        while self.rest.starts_with([' ', '\t', '\r', '\n']) {
            self.bump();
        }
        let at = Position { line: self.line, column: self.column };
        Some((self.rest.chars().next()?, at))
    }

    fn value(&mut self) -> Option<Located> {
        let (first, at) = self.peek()?;
        let node = match first {
            '{' => Node::Map(self.map()?),
            '[' => Node::List(self.list()?),
            '"' => {
                self.string()?;
                Node::Leaf
            }
            _ => {
                while self.rest.starts_with(|c: char| !matches!(c, ',' | '}' | ']') && !c.is_whitespace()) {
                    self.bump();
                }
                Node::Leaf
            }
        };
        Some(Located { at, node })
    }

    fn map(&mut self) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        self.bump();
        loop {
            match self.peek()? {
                ('}', _) => {
                    self.bump();
                    return Some(entries);
                }
                ('"', key_at) => {
                    let key = self.string()?;
                    let (':', _) = self.peek()? else { return None };
                    self.bump();
                    entries.push(Entry { key, key_at, value: self.value()? });
                }
                (',', _) => {
                    self.bump();
                }
                _ => return None,
            }
        }
    }

    fn list(&mut self) -> Option<Vec<Located>> {
        let mut values = Vec::new();
        self.bump();
        loop {
            match self.peek()? {
                (']', _) => {
                    self.bump();
                    return Some(values);
                }
                (',', _) => {
                    self.bump();
                }
                _ => values.push(self.value()?),
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let text = self.rest;
        self.bump();
        loop {
            match self.bump()? {
                '\\' => {
                    self.bump();
                }
                '"' => break,
                _ => {}
            }
        }
        serde_json::from_str(&text[..text.len() - self.rest.len()]).ok()
    }
}
