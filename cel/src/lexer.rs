//! Splits the source of an expression into tokens.

use crate::error::SourceError;

/// A token of a CEL expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Name(String),
    /// A field name in backticks.
    Quoted(String),
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Symbol(&'static str),
    End,
}

/// The symbols of the language, longer ones first.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// Returns all tokens with their byte offsets, followed by [`Token::End`].
pub(crate) fn tokens(source: &str) -> Result<Vec<(u32, Token)>, SourceError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (token, length) = token(rest).map_err(|why| SourceError::syntax(at, why))?;
        found.push((position(at), token));
        at += length;
    }
    found.push((position(source.len()), Token::End));
    Ok(found)
}

/// Converts an offset. It always fits, because [`crate::MAX_LENGTH`] limits the source.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn token(rest: &str) -> Result<(Token, usize), String> {
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    let second = chars.next().unwrap_or_default();
    if let Some(read) = text(rest) {
        return read;
    }
    if first == '_' || first.is_ascii_alphabetic() {
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        return Ok((Token::Name(rest[..end].to_owned()), end));
    }
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return number(rest);
    }
    if first == '`' {
        let end = rest[1..].find('`').ok_or("unterminated name in backticks")?;
        let name = &rest[1..=end];
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
        if name.is_empty() || !name.chars().all(is_fine) {
            return Err(format!("`{name}` is not a valid name"));
        }
        return Ok((Token::Quoted(name.to_owned()), end + 2));
    }
    let sign = SYMBOLS.iter().find(|sign| rest.starts_with(**sign));
    sign.map(|sign| (Token::Symbol(sign), sign.len()))
        .ok_or_else(|| format!("token recognition error at: '{}'", first.escape_default()))
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let digits = |from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        from + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len())
    };
    let is_at = |at: usize, letters: &str| rest[at..].starts_with(|c: char| letters.contains(c));
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let tail = &rest[2..];
        let end = 2 + tail.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(tail.len());
        let value = u64::from_str_radix(&rest[2..end], 16);
        let value = value.map_err(|_| format!("invalid int literal {}", &rest[..end]))?;
        return Ok(if is_at(end, "uU") { (Token::Uint(value), end + 1) } else { (Token::Int(value), end) });
    }
    let mut end = digits(0);
    let mut is_double = false;
    if rest[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
        is_double = true;
    }
    if is_at(end, "eE") {
        let sign = usize::from(is_at(end + 1, "+-"));
        if digits(end + 1 + sign) > end + 1 + sign {
            end = digits(end + 1 + sign);
            is_double = true;
        }
    }
    let text = &rest[..end];
    let wrong = || format!("invalid number {text}");
    if is_double {
        let value: f64 = text.parse().map_err(|_| wrong())?;
        return if value.is_finite() { Ok((Token::Double(value), end)) } else { Err(wrong()) };
    }
    let value = text.parse().map_err(|_| format!("invalid int literal {text}"))?;
    Ok(if is_at(end, "uU") { (Token::Uint(value), end + 1) } else { (Token::Int(value), end) })
}

/// Parses a string or bytes literal, and returns its length. `None` if the source begins with another token.
fn text(source: &str) -> Option<Result<(Token, usize), String>> {
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
        let first = tail.chars().next().ok_or("unterminated string")?;
        if first == '\n' && quote.len() == 1 {
            return Err("unterminated string on this line".to_owned());
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
    let text = String::from_utf8(bytes).map_err(|_| "a string is not UTF-8")?;
    Ok((Token::Text(text), length))
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// Parses an escape sequence after the backslash, and returns its length.
fn escape(tail: &str, is_bytes: bool) -> Result<(Escaped, usize), String> {
    let first = tail.chars().next().ok_or("a backslash at the end of the source")?;
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
