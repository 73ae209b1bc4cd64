//! Reads no more of a document than what somebody asks of it: most of an object is none of a controller's business.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What is read: everything, or these fields, of each element where there is a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sieve {
    /// All of it.
    Everything,
    /// These fields, and what is read of each.
    Fields(Vec<(&'static str, Sieve)>),
}

impl Sieve {
    /// Nothing yet.
    pub const fn nothing() -> Self {
        Self::Fields(Vec::new())
    }

    /// The same with the field at this path (`status.phase`); a name that has dots stands in brackets, last (`metadata.labels.[a.b/c]`).
    #[must_use]
    pub fn with(mut self, path: &'static str) -> Self {
        self.add(path, Self::Everything);
        self
    }

    /// The same with the field of that name, and of it what that reads.
    #[must_use]
    pub fn with_part(mut self, field: &'static str, part: Self) -> Self {
        self.add(field, part);
        self
    }

    fn add(&mut self, path: &'static str, inner: Self) {
        let Self::Fields(fields) = self else { return };
        let (first, rest) = match path.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => (name, None),
            None => path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest))),
        };
        let known = fields.iter().position(|(field, _)| *field == first);
        let at = known.unwrap_or_else(|| {
            fields.push((first, Self::nothing()));
            fields.len() - 1
        });
        match (fields.get_mut(at), rest) {
            (Some((_, below)), Some(rest)) => below.add(rest, inner),
            (Some((_, below)), None) => *below = inner,
            (None, _) => {}
        }
    }

    /// Reads that much of a document in JSON; what is something else than a map or a list where fields are asked for is null.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn read(&self, json: &[u8]) -> Result<Value, serde_json::Error> {
        let mut document = serde_json::Deserializer::from_slice(json);
        let read = self.deserialize(&mut document)?;
        document.end()?;
        Ok(read)
    }
}

impl<'de> DeserializeSeed<'de> for &Sieve {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<Value, D::Error> {
        match self {
            Sieve::Everything => serde::Deserialize::deserialize(document),
            Sieve::Fields(fields) => document.deserialize_any(Part { sieve: self, fields }),
        }
    }
}

/// A value of which some fields are read.
struct Part<'s> {
    sieve: &'s Sieve,
    fields: &'s [(&'static str, Sieve)],
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(wanted) = map.next_key_seed(Name(self.fields))? {
            match wanted {
                Some((field, sieve)) => drop(read.insert((*field).to_owned(), map.next_value_seed(sieve)?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(read))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(element) = list.next_element_seed(self.sieve)? {
            read.push(element);
        }
        Ok(Value::Array(read))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The name of a field: what is read of it, if anything.
struct Name<'s>(&'s [(&'static str, Sieve)]);

impl<'de, 's> DeserializeSeed<'de> for Name<'s> {
    type Value = Option<&'s (&'static str, Sieve)>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'s> Visitor<'_> for Name<'s> {
    type Value = Option<&'s (&'static str, Sieve)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(field, _)| *field == name))
    }
}

#[cfg(test)]
mod tests {
    //! What is read and what is not.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_asked_for_is_read() {
        let sieve = Sieve::nothing().with("a").with("b.c").with("b.d.e").with("none");
        let document = json!({
            "a": {"x": [1, null]}, "b": {"c": "1", "d": {"e": 2, "f": 3}, "g": {}}, "h": [{"a": 1}],
        });
        let read = sieve.read(document.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!({"a": {"x": [1, null]}, "b": {"c": "1", "d": {"e": 2}}}));
        // Of lists each element is, and what has no fields is nothing.
        let document = json!([{"a": 1, "x": 2}, {"b": [{"c": 1, "x": 1}, 7, "text", true, 1.5, -1, null]}]);
        let read = sieve.read(document.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!([{"a": 1}, {"b": [{"c": 1}, null, null, null, null, null, null]}]));
        assert!(sieve.read(b"{\"a\":").is_err() && sieve.read(b"{} {}").is_err());
        assert_eq!(Sieve::Everything.read(b"[1]").unwrap(), json!([1]));
        let one =
            Sieve::nothing().with("a.[b.c/d.e]").read(br#"{"a": {"b.c/d.e": 1, "b": {"c/d": {"e": 2}}}}"#);
        assert_eq!(one.unwrap(), json!({"a": {"b.c/d.e": 1}}));
        let below = Sieve::nothing().with_part("object", sieve);
        assert_eq!(
            below.read(br#"{"type": "X", "object": {"a": 1, "y": 2}}"#).unwrap(),
            json!({"object": {"a": 1}})
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_panics(text in ".{0,64}") {
            let sieve = Sieve::nothing().with("a").with("b.c");
            let _ = sieve.read(text.as_bytes());
            let document = json!({&text: {&text: [&text]}}).to_string();
            prop_assert!(sieve.read(document.as_bytes()).is_ok());
        }
    }
}
