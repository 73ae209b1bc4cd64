//! Builds a JSON value from a text in which a field may stand twice: the last one counts, and every repetition is told.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_yaml::{DuplicateKeyPolicy, Spanned};

use super::yaml;
use crate::path::Path;

/// Repetitions that are told of one document; the stock server's limit.
const TOLD: usize = 100;
/// Values of one YAML document, those that aliases repeat included: an alias is a few bytes and may stand for thousands.
const MAX_VALUES: usize = 250_000;

/// A document and what is said of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// The document, `null` when it holds nothing.
    pub value: Value,
    /// What stands twice, in the words of the stock server, each with its path for what goes on with it.
    pub repeated: Vec<Repetition>,
}

/// A field that stands twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Where: `spec.containers[0].image`.
    pub path: String,
    /// `duplicate field "spec.containers[0].image"`; in YAML with the line.
    pub said: String,
}

/// Reads one JSON document.
///
/// # Errors
/// When the text is no JSON, or nests deeper than 128 levels.
pub fn json(bytes: &[u8]) -> Result<Repeated, serde_json::Error> {
    let noted = Noted::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = Reader::<String>::new(&noted, &Path::ROOT).deserialize(&mut json)?;
    json.end()?;
    Ok(noted.with(value))
}

/// Reads one YAML document.
///
/// # Errors
/// When the text is no YAML, or holds more than one document may.
pub fn yaml(text: &str) -> Result<Repeated, String> {
    let noted = Noted { left: Cell::new(MAX_VALUES), ..Noted::default() };
    let mut options = yaml::options();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    let read = serde_yaml::with_deserializer_from_str_with_options(text, options, |yaml| {
        Reader::<Spanned<String>>::new(&noted, &Path::ROOT).deserialize(yaml)
    });
    match read {
        Ok(value) => Ok(noted.with(value)),
        // The reader of manifests says best what is wrong with a text.
        Err(error) => Err(super::value(text.as_bytes())
            .err()
            .map_or_else(|| error.to_string(), |problem| problem.to_string())),
    }
}

/// What has been found so far, and how many values may still come.
#[derive(Debug)]
struct Noted {
    found: RefCell<Vec<Repetition>>,
    left: Cell<usize>,
}

impl Default for Noted {
    fn default() -> Self {
        // JSON holds no more than it is long.
        Self { found: RefCell::default(), left: Cell::new(usize::MAX) }
    }
}

impl Noted {
    fn with(self, value: Value) -> Repeated {
        Repeated { value, repeated: self.found.into_inner() }
    }

    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        self.left
            .set(left.ok_or_else(|| E::custom(format_args!("there are more than {MAX_VALUES} values")))?);
        Ok(())
    }

    fn note(&self, path: &Path<'_>, key: &str, line: Option<u64>) {
        let mut found = self.found.borrow_mut();
        if found.len() == TOLD {
            return;
        }
        let path = path.to_owned().to_string();
        let said = match line {
            Some(line) => format!("line {line}: key {key:?} already set in map"),
            None => format!("duplicate field \"{path}\""),
        };
        let repetition = Repetition { path, said };
        if !found.contains(&repetition) {
            found.push(repetition);
        }
    }
}

/// The name of a field, with its line where the text has lines.
trait Name: for<'de> Deserialize<'de> {
    fn parts(self) -> (String, Option<u64>);
}

impl Name for String {
    fn parts(self) -> (String, Option<u64>) {
        (self, None)
    }
}

impl Name for Spanned<String> {
    fn parts(self) -> (String, Option<u64>) {
        let line = self.referenced.line();
        (self.value, Some(line))
    }
}

/// Reads the value at a path.
struct Reader<'a, N> {
    noted: &'a Noted,
    path: &'a Path<'a>,
    name: PhantomData<N>,
}

impl<'a, N> Reader<'a, N> {
    fn new(noted: &'a Noted, path: &'a Path<'a>) -> Self {
        Self { noted, path, name: PhantomData }
    }
}

impl<'de, N: Name> DeserializeSeed<'de> for Reader<'_, N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: Name> Visitor<'de> for Reader<'_, N> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.noted.take()?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.noted.take()?;
        let mut values = Vec::new();
        loop {
            let here = self.path.index(values.len());
            match list.next_element_seed(Reader::<N>::new(self.noted, &here))? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.noted.take()?;
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<N>()? {
            let (key, line) = name.parts();
            let here = self.path.field(&key);
            let value = entries.next_value_seed(Reader::<N>::new(self.noted, &here))?;
            if map.contains_key(&key) {
                self.noted.note(&here, &key, line);
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
