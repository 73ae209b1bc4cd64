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
mod tests {
    //! Tests of the position of unclosed brackets.

    use super::unclosed;

    #[test]
    fn unclosed_brackets_are_found() {
        for (text, expected) in [
            ("args: [a, b\nimage: x\n", Some((1, 7, '['))),
            ("metadata: {name: a\nspec: 1\n", Some((1, 11, '{'))),
            ("- args: [a, b\n  command: [x]\n  env: {a: b}\n", Some((1, 9, '['))),
            ("a: [{b: [c\nd: 1\n", Some((1, 9, '['))),
            ("a: [b,\n  c]\nd: {e\nf: 1\n", Some((3, 4, '{'))),
            // Closed on another line.
            ("a: [b,\n  c]\nd: e\n", None),
            ("a: {b: c\n  d: e}\n", None),
            // Not a bracket of flow style.
            ("a: b[0\nc: d\n", None),
            ("a: \"[\"\nb: '['\nc: 1\n", None),
            ("a: \"\\\"[\"\nc: 1\n", None),
            ("a: it's [\nb: 1\n", None),
            ("a: 1 # [\nb: 1\n", None),
            ("a: |\n  if [ -f x\n\n  then {\nb: 1\n", None),
            ("- run: >-\n    [\n  b: 1\n", None),
            ("a: x-1\nb: [c\nd: 1\n", Some((2, 4, '['))),
        ] {
            let last = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
            let found = unclosed(text, last).map(|open| (open.line, open.column, open.bracket));
            assert_eq!(found, expected, "{text}");
        }
    }
}
