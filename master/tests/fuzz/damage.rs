//! Ways to damage bytes: flipped bits, deletions, repetitions and insertions.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// Fragments with a meaning in one of the formats.
const TOKENS: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "'",
    "\\",
    "/",
    "~",
    "~0",
    "~1",
    "-",
    "%",
    "%00",
    "%ff",
    "=",
    "!=",
    "==",
    " in (",
    ")",
    " notin ",
    "&",
    "?",
    "*",
    ".",
    "..",
    "\0",
    "\n",
    "\u{feff}",
    "é",
    "null",
    "true",
    "1e999",
    "-0",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "$patch",
    "$retainKeys",
    "---\n",
    "&a [*a]",
    "<<: ",
];

/// One change.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Flips a bit.
    Flip(Index, u8),
    /// Deletes a range.
    Cut(Index, Index),
    /// Repeats a range at another position.
    Again(Index, Index, Index),
    /// Inserts a fragment.
    Insert(Index, Vec<u8>),
    /// Replaces a value of a JSON document.
    Swap(Index, Value),
}

/// A few changes, or none.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let token = prop_oneof![
        4 => select(&TOKENS[..]).prop_map(|token| token.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 1..6),
        1 => (select(&["[", "{\"a\":", "- ", "(", "a.", "\""][..]), 1..3000_usize)
            .prop_map(|(token, times)| token.repeat(times).into_bytes()),
    ];
    let edit = prop_oneof![
        2 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Cut(from, to)),
        1 => (any::<Index>(), any::<Index>(), any::<Index>())
            .prop_map(|(from, to, at)| Edit::Again(from, to, at)),
        3 => (any::<Index>(), token).prop_map(|(at, token)| Edit::Insert(at, token)),
        6 => (any::<Index>(), value()).prop_map(|(at, value)| Edit::Swap(at, value)),
    ];
    vec(edit, 0..4)
}

/// Replacement values of other types.
fn value() -> impl Strategy<Value = Value> {
    let nested = (0..80).fold(json!(1), |inner, _| json!({"a": [inner]}));
    select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("-1"),
        json!("1e400"),
        json!("a/b"),
        json!("../.."),
        json!("\u{0}"),
        json!("é"),
        json!("999999999999999999999999Ei"),
        json!("2024-13-45T99:99:99Z"),
        json!("=in=(a"),
        json!("x".repeat(5000)),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!([{}, {}]),
        json!(["a", "a"]),
        json!({"": ""}),
        json!({"a": null}),
        json!({"name": "a"}),
        json!([{"name": "a"}, {"name": "a"}]),
        json!({"$patch": "delete"}),
        json!({"matchLabels": {"a": "b"}}),
        json!({"$ref": "#"}),
        json!({"type": "object"}),
        nested,
    ])
}

/// The bytes after all changes.
pub fn damaged(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits {
        // The position after the last byte is valid, too.
        let place = |index: &Index| index.index(bytes.len() + 1);
        match edit {
            Edit::Flip(at, bit) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Edit::Flip(..) => {}
            Edit::Cut(from, to) => {
                let (from, to) = ordered(place(from), place(to));
                bytes.drain(from..to);
            }
            Edit::Again(from, to, at) => {
                let (from, to) = ordered(place(from), place(to));
                let (part, at) = (bytes[from..to].to_vec(), place(at));
                bytes.splice(at..at, part);
            }
            Edit::Insert(at, piece) => {
                let at = place(at);
                bytes.splice(at..at, piece.iter().copied());
            }
            Edit::Swap(at, value) => {
                if let Ok(mut document) = serde_json::from_slice::<Value>(&bytes) {
                    let mut paths = Vec::new();
                    collect(&document, &mut String::new(), &mut paths);
                    let path: &String = at.get(&paths);
                    if let Some(place) = document.pointer_mut(path) {
                        *place = value.clone();
                    }
                    bytes = document.to_string().into_bytes();
                }
            }
        }
    }
    bytes
}

fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// The paths of all values of a document.
fn collect(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    paths.push(path.clone());
    let mut below = |name: &str, value: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(value, path, paths);
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value)),
        _ => {}
    }
}

/// Displays bytes in the failure message of a test.
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = &self.0[..self.0.len().min(4000)];
        write!(f, "{}", most.escape_ascii())
    }
}
