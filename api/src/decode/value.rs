//! Deserializes a JSON value within the limits of a manifest. Duplicate keys are an error.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Limit for the values of one manifest with all aliases expanded: about a thousand large Pods.
const MAX_VALUES: usize = 250_000;
/// Limit for the bytes of all keys and strings of one manifest, with all aliases expanded.
const MAX_TEXT_BYTES: usize = super::MAX_MANIFEST_BYTES + (2 << 20);

/// The beginning of the error message for an exceeded limit.
pub(super) const TOO_MUCH: &str = "the manifest holds more than";

/// The remaining limits of one manifest.
#[derive(Debug)]
pub(super) struct DecodeLimits {
    values: Cell<usize>,
    text_bytes: Cell<usize>,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { values: Cell::new(MAX_VALUES), text_bytes: Cell::new(MAX_TEXT_BYTES) }
    }
}

impl DecodeLimits {
    fn take<E: Error>(&self, text_bytes: usize) -> Result<(), E> {
        let Some(values) = self.values.get().checked_sub(1) else {
            return Err(E::custom(format_args!("{TOO_MUCH} {MAX_VALUES} values")));
        };
        let Some(text_bytes) = self.text_bytes.get().checked_sub(text_bytes) else {
            return Err(E::custom(format_args!("{TOO_MUCH} {} MiB of text", MAX_TEXT_BYTES >> 20)));
        };
        self.values.set(values);
        self.text_bytes.set(text_bytes);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &DecodeLimits {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &DecodeLimits {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.take(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.take(key.len())?;
            if map.contains_key(&key) {
                let key: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format_args!("the key `{key}` is defined twice")));
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}
