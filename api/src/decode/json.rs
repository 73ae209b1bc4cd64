//! JSON text to JSON values; unlike serde_json's own `Value`, a key that stands twice is an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::syntax::SyntaxError;

/// One of the values a text holds, with the byte at which it starts.
#[derive(Debug)]
pub(super) struct Parsed {
    pub value: Value,
    pub start: usize,
}

/// Parses every value of a text: JSON documents may simply follow each other.
pub(super) fn parse(text: &str) -> Result<Vec<Parsed>, SyntaxError> {
    let mut values = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    loop {
        let start = stream.byte_offset();
        match stream.next() {
            None => return Ok(values),
            Some(Ok(Strict(Value::Null))) => {}
            Some(Ok(Strict(value))) => values.push(Parsed { value, start }),
            Some(Err(error)) => return Err(syntax_error(&error)),
        }
    }
}

fn syntax_error(error: &serde_json::Error) -> SyntaxError {
    let said = error.to_string();
    let what = said.split(" at line ").next().unwrap_or(&said).to_owned();
    let remedy = if error.is_eof() {
        "complete the file: it looks cut off"
    } else if what.starts_with("duplicate key") {
        "keep one of them"
    } else if what.starts_with("recursion limit") {
        "nest less deeply"
    } else {
        "correct the JSON here"
    };
    SyntaxError {
        line: u32::try_from(error.line()).unwrap_or(u32::MAX).max(1),
        column: u32::try_from(error.column()).unwrap_or(u32::MAX).max(1),
        what,
        remedy: remedy.to_owned(),
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            let Strict(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
