//! Prints text of other users safely on a terminal: control characters are shown instead of executed.

use std::borrow::Cow;

/// Makes text of other users safe for a terminal. No message, label or annotation can then move the cursor, set the
/// title or hide text. Control characters become caret notation (`^[` for ESC), and C1 characters become `\u{9b}`.
/// Line breaks and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if is_harmless(c) => shown.push(c),
            '\x7f' => shown.push_str("^?"),
            c if c.is_ascii() => {
                shown.push('^');
                shown.push(char::from(c as u8 + b'@'));
            }
            c => shown.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    //! Tests of escaping of control characters.

    use super::visible;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("plain text: ä\n\tnext", "plain text: ä\n\tnext"),
            ("\x1b]0;title\x07\x1b[2J", "^[]0;title^G^[[2J"),
            ("over\rwritten\x08", "over^Mwritten^H"),
            ("\u{9b}31m\x7f", "\\u{9b}31m^?"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
