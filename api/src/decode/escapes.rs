//! Accepts the escape `\'` in double-quoted YAML strings, as the parsers of stock Kubernetes do.

use serde::de::IgnoredAny;

use super::yaml;

/// The escape sequence.
const ESCAPE: &str = "\\'";
/// The error text of the YAML scanner for an unknown escape. Its position is that of the opening quote.
const UNKNOWN_ESCAPE: &str = "unknown escape character";
/// Limit for scalars with such escapes in one document; each costs one scan of the text.
const MAX_SCALARS: usize = 100;

/// Replaces `\'` by `'` in double-quoted scalars. Returns `None` if there are none. Other scalars have no escapes
/// and stay unchanged. Line numbers stay the same.
pub(super) fn without_apostrophe_escapes(text: &str) -> Option<String> {
    if !text.contains(ESCAPE) {
        return None;
    }
    let mut replaced: Option<String> = None;
    for _ in 0..MAX_SCALARS {
        let current = replaced.as_deref().unwrap_or(text);
        let Some(quote) = first_unknown_escape(current) else { break };
        let (before, scalar) = current.split_at(quote);
        let Some(scalar) = without_escapes(scalar) else { break };
        replaced = Some(format!("{before}{scalar}"));
    }
    replaced
}

/// The byte offset of the opening quote of the first scalar with an unknown escape.
fn first_unknown_escape(text: &str) -> Option<usize> {
    let scanned = serde_yaml::with_deserializer_from_str_with_options(text, yaml::options(), |yaml| {
        serde::Deserialize::deserialize(yaml).map(|_: IgnoredAny| ())
    });
    let error = scanned.err()?;
    if !error.to_string().contains(UNKNOWN_ESCAPE) {
        return None;
    }
    let at = error.location()?;
    let line_start = match usize::try_from(at.line()).ok()?.checked_sub(1)? {
        0 => 0,
        lines => text.match_indices('\n').nth(lines - 1)?.0 + 1,
    };
    let column = usize::try_from(at.column()).ok()?.checked_sub(1)?;
    let offset = line_start + text[line_start..].char_indices().nth(column)?.0;
    text[offset..].starts_with('"').then_some(offset)
}

/// Replaces `\'` by `'` in the double-quoted scalar at the start of the text. Returns `None` if it has no such
/// escape.
fn without_escapes(text: &str) -> Option<String> {
    let mut scalar = String::from("\"");
    let mut characters = text.char_indices().skip(1);
    let mut found = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                scalar.push_str(&text[at..]);
                return found.then_some(scalar);
            }
            '\\' => match characters.next()?.1 {
                '\'' => {
                    found = true;
                    scalar.push('\'');
                }
                escaped => scalar.extend(['\\', escaped]),
            },
            other => scalar.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    //! Tests of the replaced escapes.
    use super::without_apostrophe_escapes;

    #[test]
    fn apostrophes_are_unescaped_in_double_quotes_alone() {
        for (text, expected) in [
            (r#"a: "it's""#, None),
            (r#"a: "it\'s""#, Some(r#"a: "it's""#)),
            ("a: \"x\\\\\\'\"\nb: c", Some("a: \"x\\\\'\"\nb: c")),
            ("äö: [\"\\'a\\'\", \"\\'b\"]", Some("äö: [\"'a'\", \"'b\"]")),
            (r"a: it\'s", None),
            ("a: |\n  echo \"it\\'s\"\n", None),
            ("a: |\n  \"\\'\"\nb: \"\\'\"\n", Some("a: |\n  \"\\'\"\nb: \"'\"\n")),
            (r#"a: "\'"#, None),
        ] {
            assert_eq!(without_apostrophe_escapes(text).as_deref(), expected, "{text}");
        }
    }
}
