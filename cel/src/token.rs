//! Takes the text of an expression apart into words, numbers, texts and signs.

use crate::error::Fault;
use crate::literal;

/// One piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Name(String),
    /// A name in backticks, which is a field's alone.
    Quoted(String),
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Sign(&'static str),
    End,
}

/// Signs, longer ones first.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// Every piece with the byte it begins at, the end last.
pub(crate) fn tokens(source: &str) -> Result<Vec<(u32, Token)>, Fault> {
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
        let (token, length) = token(rest).map_err(|why| Fault::syntax(at, why))?;
        found.push((position(at), token));
        at += length;
    }
    found.push((position(source.len()), Token::End));
    Ok(found)
}

/// A position that fits, as no text is longer than [`crate::MAX_LENGTH`].
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn token(rest: &str) -> Result<(Token, usize), String> {
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    let second = chars.next().unwrap_or_default();
    if let Some(read) = literal::text(rest) {
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
        let end = rest[1..].find('`').ok_or("a name in backticks has no end")?;
        let name = &rest[1..=end];
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
        if name.is_empty() || !name.chars().all(is_fine) {
            return Err(format!("`{name}` is no name"));
        }
        return Ok((Token::Quoted(name.to_owned()), end + 2));
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    sign.map(|sign| (Token::Sign(sign), sign.len()))
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
