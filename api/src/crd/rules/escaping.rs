//! Escapes field names that are not CEL identifiers.

use std::borrow::Cow;

/// Reserved words of CEL.
const KEYWORDS: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];
/// Character sequences that an identifier cannot contain, with their escape sequences.
const SIGNS: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// The CEL identifier for a field, or `None` if the name cannot be escaped.
pub(super) fn escaped(name: &str) -> Option<Cow<'_, str>> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__").into());
    }
    let mut rest = name;
    let mut text = String::with_capacity(name.len());
    while let Some(first) = rest.chars().next() {
        if let Some((sign, word)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            text.push_str(word);
            rest = &rest[sign.len()..];
            continue;
        }
        let is_start = rest.len() == name.len();
        if !(first == '_' || first.is_ascii_alphabetic() || (first.is_ascii_digit() && !is_start)) {
            return None;
        }
        text.push(first);
        rest = &rest[1..];
    }
    if text == name { Some(name.into()) } else { (!text.is_empty()).then(|| text.into()) }
}
