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
