//! Finds unclosed brackets of flow-style YAML. The parser reports them too late, often on a later line.

/// An unclosed bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// The character: `[` or `{`.
    pub bracket: char,
    /// Line number, from 1.
    pub line: u32,
    /// Column number in characters, from 1.
    pub column: u32,
}

impl Open {
    /// The closing bracket.
    pub fn closer(self) -> char {
        if self.bracket == '[' { ']' } else { '}' }
    }
}

/// The innermost bracket that is opened before a line and never closed.
pub(super) fn unclosed(text: &str, before_line: u32) -> Option<Open> {
    let mut scan = Scan::default();
    for (number, line) in (1..).zip(text.lines()) {
        scan.line(line, number);
    }
    scan.open.into_iter().rev().find(|open| open.line < before_line)
}

/// The state of the scan for unclosed brackets.
#[derive(Default)]
struct Scan {
    open: Vec<Open>,
    /// The open quote, which may span lines.
    quote: Option<char>,
    /// The indentation of the parent of a block scalar, while inside of one.
    block: Option<usize>,
}

impl Scan {
    fn line(&mut self, line: &str, number: u32) {
        let indent = line.len() - line.trim_start().len();
        if self.block.is_some_and(|block| indent > block || line.trim().is_empty()) {
            return;
        }
        self.block = None;
        let mut before = ' ';
        // True if a value may follow on this line: after `- ` or `key:`, or at the start.
        let mut wants_value = true;
        let mut escaped = false;
        for (column, c) in (1..).zip(line.chars()) {
            let starts = before.is_whitespace() || matches!(before, '[' | '{' | ',' | ':');
            before = c;
            match (self.quote, c) {
                (Some('"'), '\\') if !escaped => {
                    escaped = true;
                    continue;
                }
                (Some(quote), _) if c == quote && !escaped => self.quote = None,
                (Some(_), _) => {}
                (None, '#') if starts => break,
                (None, '"' | '\'') if starts => self.quote = Some(c),
                (None, '[' | '{') if !self.open.is_empty() || starts && wants_value => {
                    self.open.push(Open { bracket: c, line: number, column });
                }
                (None, ']' | '}') if self.open.last().is_some_and(|open| open.closer() == c) => {
                    self.open.pop();
                }
                (None, _) => {}
            }
            escaped = false;
            if !c.is_whitespace() {
                wants_value = matches!(c, ':' | '-' | '?');
            }
        }
        let header = line.trim_end().trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
        if self.open.is_empty() && self.quote.is_none() && (header.ends_with(" |") || header.ends_with(" >"))
        {
            self.block = Some(indent);
        }
    }
}

#[cfg(test)]
mod tests;
