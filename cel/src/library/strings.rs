//! The strings library. Indices count characters.

use crate::arguments;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function, method};
use crate::types::Type;
use crate::value::Value;

const BOOL: Returns = Returns::Is(Type::Bool);
const INT: Returns = Returns::Is(Type::Int);
const TEXT: Returns = Returns::Is(Type::String);
const ONE: &[Kind] = &[Kind::Text];
const TWO: &[Kind] = &[Kind::Text, Kind::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    method("contains", TWO, BOOL, |of, budget| {
        let (text, part) = two(of, budget)?;
        Ok(Value::Bool(text.contains(part)))
    }),
    method("startsWith", TWO, BOOL, |of, budget| {
        let (text, part) = two(of, budget)?;
        Ok(Value::Bool(text.starts_with(part)))
    }),
    method("endsWith", TWO, BOOL, |of, budget| {
        let (text, part) = two(of, budget)?;
        Ok(Value::Bool(text.ends_with(part)))
    }),
    method("indexOf", TWO, INT, |of, budget| first(of, 0, budget)),
    method("indexOf", &[Kind::Text, Kind::Text, Kind::Int], INT, |of, budget| {
        first(of, arguments::int(of, 2)?, budget)
    }),
    method("lastIndexOf", TWO, INT, |of, budget| last(of, i64::MAX, budget)),
    method("lastIndexOf", &[Kind::Text, Kind::Text, Kind::Int], INT, |of, budget| {
        last(of, arguments::int(of, 2)?, budget)
    }),
    method("lowerAscii", ONE, TEXT, |of, budget| Ok(Value::from(one(of, budget)?.to_ascii_lowercase()))),
    method("upperAscii", ONE, TEXT, |of, budget| Ok(Value::from(one(of, budget)?.to_ascii_uppercase()))),
    method("trim", ONE, TEXT, |of, budget| Ok(Value::from(one(of, budget)?.trim()))),
    method("reverse", ONE, TEXT, |of, budget| {
        Ok(Value::from(one(of, budget)?.chars().rev().collect::<String>()))
    }),
    method("charAt", &[Kind::Text, Kind::Int], TEXT, |of, budget| {
        let (text, at) = (one(of, budget)?, arguments::int(of, 1)?);
        let place = usize::try_from(at).ok().filter(|at| *at <= text.chars().count());
        let place = place.ok_or_else(|| Error::failed(format!("index out of range: {at}")))?;
        Ok(Value::from(text.chars().nth(place).map(String::from).unwrap_or_default()))
    }),
    method("substring", &[Kind::Text, Kind::Int], TEXT, |of, budget| {
        substring(of, i64::try_from(one(of, budget)?.chars().count()).unwrap_or(i64::MAX))
    }),
    method("substring", &[Kind::Text, Kind::Int, Kind::Int], TEXT, |of, budget| {
        one(of, budget)?;
        substring(of, arguments::int(of, 2)?)
    }),
    method("replace", &[Kind::Text, Kind::Text, Kind::Text], TEXT, |of, budget| replace(of, -1, budget)),
    method("replace", &[Kind::Text, Kind::Text, Kind::Text, Kind::Int], TEXT, |of, budget| {
        replace(of, arguments::int(of, 3)?, budget)
    }),
    method("split", TWO, Returns::ListOf(Type::String), |of, budget| split(of, -1, budget)),
    method("split", &[Kind::Text, Kind::Text, Kind::Int], Returns::ListOf(Type::String), |of, budget| {
        split(of, arguments::int(of, 2)?, budget)
    }),
    method("join", &[Kind::List], TEXT, |of, budget| join(of, "", budget)),
    method("join", &[Kind::List, Kind::Text], TEXT, |of, budget| join(of, arguments::text(of, 1)?, budget)),
    function("strings.quote", ONE, TEXT, |of, budget| {
        Ok(Value::from(format!("\"{}\"", one(of, budget)?.escape_debug())))
    }),
];

fn one<'a>(of: &'a [Value], budget: &mut Budget) -> Result<&'a str, Error> {
    let text = arguments::text(of, 0)?;
    budget.charge_bytes(text.len())?;
    Ok(text)
}

fn two<'a>(of: &'a [Value], budget: &mut Budget) -> Result<(&'a str, &'a str), Error> {
    Ok((one(of, budget)?, arguments::text(of, 1)?))
}

/// The byte offset of a character. The index after the last character gives the length of the text.
fn byte(text: &str, at: i64) -> Result<usize, Error> {
    let wrong = || Error::failed(format!("index out of range: {at}"));
    let at = usize::try_from(at).map_err(|_| wrong())?;
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(at).ok_or_else(wrong)
}

fn place(text: &str, byte: Option<usize>) -> Value {
    byte.map_or(Value::Int(-1), |byte| Value::from(text[..byte].chars().count()))
}

fn first(of: &[Value], from: i64, budget: &mut Budget) -> Result<Value, Error> {
    let (text, part) = two(of, budget)?;
    let from = byte(text, from)?;
    Ok(place(text, text[from..].find(part).map(|at| from + at)))
}

fn last(of: &[Value], until: i64, budget: &mut Budget) -> Result<Value, Error> {
    let (text, part) = two(of, budget)?;
    let until = if until == i64::MAX { text.len() } else { byte(text, until)? };
    let end = until.saturating_add(part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    Ok(place(text, text[..end].rfind(part).filter(|at| *at <= until)))
}

fn substring(of: &[Value], end: i64) -> Result<Value, Error> {
    let (text, start) = (arguments::text(of, 0)?, arguments::int(of, 1)?);
    if start > end {
        return Err(Error::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    Ok(Value::from(&text[byte(text, start)?..byte(text, end)?]))
}

fn replace(of: &[Value], most: i64, budget: &mut Budget) -> Result<Value, Error> {
    let (text, part) = two(of, budget)?;
    let new = arguments::text(of, 2)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let times = text.matches(part).take(most).count();
    budget.charge_bytes(text.len().saturating_add(times.saturating_mul(new.len())))?;
    Ok(Value::from(text.replacen(part, new, times)))
}

fn split(of: &[Value], most: i64, budget: &mut Budget) -> Result<Value, Error> {
    let (text, by) = two(of, budget)?;
    let most = match usize::try_from(most) {
        Ok(0) => return Ok(Value::list(Vec::new())),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    // An empty separator splits between all characters.
    let parts: Vec<Value> = if by.is_empty() {
        let mut parts: Vec<Value> = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next().filter(|_| parts.len() + 1 < most) {
            let (one, tail) = rest.split_at(first.len_utf8());
            parts.push(Value::from(one));
            rest = tail;
        }
        parts.extend((!rest.is_empty()).then(|| Value::from(rest)));
        parts
    } else {
        text.splitn(most, by).map(Value::from).collect()
    };
    budget.charge(parts.len())?;
    Ok(Value::list(parts))
}

fn join(of: &[Value], by: &str, budget: &mut Budget) -> Result<Value, Error> {
    let mut joined = String::new();
    for (at, item) in arguments::list(of, 0)?.items.iter().enumerate() {
        let Value::String(text) = item else {
            return Err(Error::NoSuchOverload(format!("join({})", item.type_name())));
        };
        budget.charge_bytes(text.len() + by.len())?;
        if at > 0 {
            joined.push_str(by);
        }
        joined.push_str(text);
    }
    Ok(Value::from(joined))
}
