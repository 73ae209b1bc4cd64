//! The brackets of YAML's flow style: where one was opened that nothing closes, which parsers notice a line too late.

/// A bracket that is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// `[` or `{`.
    pub bracket: char,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
}

impl Open {
    /// What would close it.
    pub fn closer(self) -> char {
        if self.bracket == '[' { ']' } else { '}' }
    }
}

/// The innermost bracket that was opened before a line and that nothing closes until the end of the text.
pub(super) fn unclosed(text: &str, before_line: u32) -> Option<Open> {
    let mut scan = Scan::default();
    for (number, line) in (1..).zip(text.lines()) {
        scan.line(line, number);
    }
    scan.open.into_iter().rev().find(|open| open.line < before_line)
}

/// Where a reading of the text stands.
#[derive(Default)]
struct Scan {
    open: Vec<Open>,
    /// Inside of quotes, over line breaks.
    quote: Option<char>,
    /// Inside of a block scalar, whose lines are indented deeper than this.
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
        // What of the line may still be followed by a value: `- key:`, or nothing yet.
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
