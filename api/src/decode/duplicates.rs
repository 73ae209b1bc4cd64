//! Parses JSON and YAML with duplicate fields. The last value wins, and each duplicate is reported.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_yaml::{DuplicateKeyPolicy, Spanned};

use super::yaml;
use crate::path::Path;

/// Maximum number of duplicates that are reported, as in the stock API server.
const MAX_REPORTED: usize = 100;
/// Limit for the values of a YAML document with all aliases expanded. A short document can expand to a huge one.
const YAML_VALUES: usize = 250_000;
/// Limit for the values of a JSON document. A value takes at least two bytes in the text, but some hundred bytes in
/// memory.
const JSON_VALUES: usize = 500_000;

/// A document and its duplicate fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithDuplicates {
    /// The document; `null` if it is empty.
    pub value: Value,
    /// The duplicate fields.
    pub duplicates: Vec<DuplicateField>,
}

/// A duplicate field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateField {
    /// The path, such as `spec.containers[0].image`.
    pub path: String,
    /// The warning of the stock API server: `duplicate field "spec.containers[0].image"`, or for YAML one with the
    /// line.
    pub message: String,
}

/// Parses one JSON document.
///
/// # Errors
/// If the text is not valid JSON, nests deeper than 128 levels, or has too many values.
pub fn json(bytes: &[u8]) -> Result<WithDuplicates, serde_json::Error> {
    let collector = Collector::new(JSON_VALUES);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = Reader::<String>::new(&collector, &Path::ROOT).deserialize(&mut json)?;
    json.end()?;
    Ok(collector.with(value))
}

/// Parses one YAML document.
///
/// # Errors
/// If the text is not valid YAML or exceeds a limit.
pub fn yaml(text: &str) -> Result<WithDuplicates, String> {
    let collector = Collector::new(YAML_VALUES);
    let mut options = yaml::options();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    let read = serde_yaml::with_deserializer_from_str_with_options(text, options, |yaml| {
        Reader::<Spanned<String>>::new(&collector, &Path::ROOT).deserialize(yaml)
    });
    match read {
        Ok(value) => Ok(collector.with(value)),
        // The manifest decoder has the better error messages.
        Err(error) => Err(super::value(text.as_bytes())
            .err()
            .map_or_else(|| error.to_string(), |problem| problem.to_string())),
    }
}

/// The duplicates found so far, and the number of values left.
#[derive(Debug)]
struct Collector {
    found: RefCell<Vec<DuplicateField>>,
    left: Cell<usize>,
    most: usize,
}

impl Collector {
    fn new(most: usize) -> Self {
        Self { found: RefCell::default(), left: Cell::new(most), most }
    }

    fn with(self, value: Value) -> WithDuplicates {
        WithDuplicates { value, duplicates: self.found.into_inner() }
    }

    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        let too_many =
            || E::custom(format_args!("there are more than {} values: split the object", self.most));
        self.left.set(left.ok_or_else(too_many)?);
        Ok(())
    }

    fn note(&self, path: &Path<'_>, key: &str, line: Option<u64>) {
        let mut found = self.found.borrow_mut();
        if found.len() == MAX_REPORTED {
            return;
        }
        let path = path.to_owned().to_string();
        let message = match line {
            Some(line) => format!("line {line}: key {key:?} already set in map"),
            None => format!("duplicate field \"{path}\""),
        };
        let repetition = DuplicateField { path, message };
        if !found.contains(&repetition) {
            found.push(repetition);
        }
    }
}

/// A field name, with its line if the format has lines.
trait FieldName: for<'de> Deserialize<'de> {
    fn parts(self) -> (String, Option<u64>);
}

impl FieldName for String {
    fn parts(self) -> (String, Option<u64>) {
        (self, None)
    }
}

impl FieldName for Spanned<String> {
    fn parts(self) -> (String, Option<u64>) {
        let line = self.referenced.line();
        (self.value, Some(line))
    }
}

/// Deserializes the value at a path.
struct Reader<'a, N> {
    collector: &'a Collector,
    path: &'a Path<'a>,
    name: PhantomData<N>,
}

impl<'a, N> Reader<'a, N> {
    fn new(collector: &'a Collector, path: &'a Path<'a>) -> Self {
        Self { collector, path, name: PhantomData }
    }
}

impl<'de, N: FieldName> DeserializeSeed<'de> for Reader<'_, N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: FieldName> Visitor<'de> for Reader<'_, N> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.collector.take()?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.collector.take()?;
        let mut values = Vec::new();
        loop {
            let here = self.path.index(values.len());
            match list.next_element_seed(Reader::<N>::new(self.collector, &here))? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.collector.take()?;
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<N>()? {
            let (key, line) = name.parts();
            let here = self.path.field(&key);
            let value = entries.next_value_seed(Reader::<N>::new(self.collector, &here))?;
            if map.contains_key(&key) {
                self.collector.note(&here, &key, line);
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
