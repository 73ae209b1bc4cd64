//! Texts and bytes as they are written: quotes, raw ones, three of them, and what a backslash says.

use crate::token::Token;

/// Reads a text or bytes and how long it is written; `None` when the source begins with something else.
pub(crate) fn text(source: &str) -> Option<Result<(Token, usize), String>> {
    let prefix = source.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let (mut is_raw, mut is_bytes) = (false, false);
    for letter in source[..prefix].chars() {
        match letter {
            'r' | 'R' if !is_raw => is_raw = true,
            'b' | 'B' if !is_bytes => is_bytes = true,
            _ => return None,
        }
    }
    let rest = &source[prefix..];
    let one = &rest[..1];
    let three = one.repeat(3);
    let quote = if rest.starts_with(&three) { three.as_str() } else { one };
    Some(read(rest, quote, is_raw, is_bytes).map(|(token, length)| (token, prefix + length)))
}

fn read(rest: &str, quote: &str, is_raw: bool, is_bytes: bool) -> Result<(Token, usize), String> {
    let mut bytes = Vec::new();
    let mut at = quote.len();
    loop {
        let tail = &rest[at..];
        if tail.starts_with(quote) {
            break;
        }
        let first = tail.chars().next().ok_or("a text has no end")?;
        if first == '\n' && quote.len() == 1 {
            return Err("a text has no end on its line".to_owned());
        }
        if first != '\\' || is_raw {
            bytes.extend_from_slice(first.to_string().as_bytes());
            at += first.len_utf8();
            if is_raw && first == '\\' && tail[1..].starts_with(quote) {
                bytes.extend_from_slice(quote.as_bytes());
                at += quote.len();
            }
            continue;
        }
        let (value, length) = escape(&tail[1..], is_bytes)?;
        match value {
            Escaped::Byte(byte) => bytes.push(byte),
            Escaped::Char(char) => bytes.extend_from_slice(char.to_string().as_bytes()),
        }
        at += 1 + length;
    }
    let length = at + quote.len();
    if is_bytes {
        return Ok((Token::Bytes(bytes), length));
    }
    let text = String::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
    Ok((Token::Text(text), length))
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// What stands behind a backslash, and how long it is.
fn escape(tail: &str, is_bytes: bool) -> Result<(Escaped, usize), String> {
    let first = tail.chars().next().ok_or("a backslash says nothing")?;
    let wrong = || format!("unable to unescape string: \\{}", first.escape_default());
    let plain = |char: char| Ok((Escaped::Char(char), 1));
    let number = |from: usize, length: usize, radix: u32| {
        let digits = tail.get(from..from + length).ok_or_else(wrong)?;
        let value = u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
        value.ok_or_else(wrong)
    };
    let value = match first {
        'a' => return plain('\u{7}'),
        'b' => return plain('\u{8}'),
        'f' => return plain('\u{c}'),
        'n' => return plain('\n'),
        'r' => return plain('\r'),
        't' => return plain('\t'),
        'v' => return plain('\u{b}'),
        '\\' | '\'' | '"' | '`' | '?' => return plain(first),
        'x' | 'X' => (number(1, 2, 16)?, 3),
        '0'..='3' => (number(0, 3, 8)?, 3),
        'u' if !is_bytes => (number(1, 4, 16)?, 5),
        'U' if !is_bytes => (number(1, 8, 16)?, 9),
        _ => return Err(wrong()),
    };
    let (value, length) = value;
    if is_bytes {
        return Ok((Escaped::Byte(u8::try_from(value).map_err(|_| wrong())?), length));
    }
    Ok((Escaped::Char(char::from_u32(value).ok_or_else(wrong)?), length))
}
