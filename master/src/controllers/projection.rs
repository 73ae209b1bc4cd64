//! Field projection: decodes only selected fields of JSON, since controllers use a small part of each object.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The fields to decode; those of a list apply to each element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The whole value.
    Full,
    /// These fields, each with its own projection.
    Fields(Vec<(&'static str, Projection)>),
}

impl Projection {
    /// A projection without fields.
    pub const fn empty() -> Self {
        Self::Fields(Vec::new())
    }

    /// Adds the field at a path (`status.phase`). A last name that contains dots is written in brackets
    /// (`metadata.labels.[a.b/c]`).
    #[must_use]
    pub fn with(mut self, path: &'static str) -> Self {
        self.add(path, Self::Full);
        self
    }

    /// Adds a field with its own projection.
    #[must_use]
    pub fn with_nested(mut self, field: &'static str, part: Self) -> Self {
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
            fields.push((first, Self::empty()));
            fields.len() - 1
        });
        match (fields.get_mut(at), rest) {
            (Some((_, below)), Some(rest)) => below.add(rest, inner),
            (Some((_, below)), None) => *below = inner,
            (None, _) => {}
        }
    }

    /// Decodes the selected fields of a JSON document. A scalar becomes null where fields are selected.
    ///
    /// # Errors
    /// If the document is not valid JSON.
    pub fn read(&self, json: &[u8]) -> Result<Value, serde_json::Error> {
        let mut document = serde_json::Deserializer::from_slice(json);
        let read = self.deserialize(&mut document)?;
        document.end()?;
        Ok(read)
    }
}

impl<'de> DeserializeSeed<'de> for &Projection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<Value, D::Error> {
        match self {
            Projection::Full => serde::Deserialize::deserialize(document),
            Projection::Fields(fields) => document.deserialize_any(Part { projection: self, fields }),
        }
    }
}

/// Visits a value of which some fields are selected.
struct Part<'s> {
    projection: &'s Projection,
    fields: &'s [(&'static str, Projection)],
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(selected) = map.next_key_seed(Name(self.fields))? {
            match selected {
                Some((field, projection)) => {
                    drop(read.insert((*field).to_owned(), map.next_value_seed(projection)?))
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(read))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(element) = list.next_element_seed(self.projection)? {
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

/// Matches a field name against the selected fields.
struct Name<'s>(&'s [(&'static str, Projection)]);

impl<'de, 's> DeserializeSeed<'de> for Name<'s> {
    type Value = Option<&'s (&'static str, Projection)>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'s> Visitor<'_> for Name<'s> {
    type Value = Option<&'s (&'static str, Projection)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(field, _)| *field == name))
    }
}

#[cfg(test)]
mod tests {
    //! Fields that a projection keeps and drops.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_asked_for_is_read() {
        let projection = Projection::empty().with("a").with("b.c").with("b.d.e").with("none");
        let document = json!({
            "a": {"x": [1, null]}, "b": {"c": "1", "d": {"e": 2, "f": 3}, "g": {}}, "h": [{"a": 1}],
        });
        let read = projection.read(document.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!({"a": {"x": [1, null]}, "b": {"c": "1", "d": {"e": 2}}}));
        // A projection applies to each element of a list; an element without fields becomes null.
        let document = json!([{"a": 1, "x": 2}, {"b": [{"c": 1, "x": 1}, 7, "text", true, 1.5, -1, null]}]);
        let read = projection.read(document.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!([{"a": 1}, {"b": [{"c": 1}, null, null, null, null, null, null]}]));
        assert!(projection.read(b"{\"a\":").is_err() && projection.read(b"{} {}").is_err());
        assert_eq!(Projection::Full.read(b"[1]").unwrap(), json!([1]));
        let one =
            Projection::empty().with("a.[b.c/d.e]").read(br#"{"a": {"b.c/d.e": 1, "b": {"c/d": {"e": 2}}}}"#);
        assert_eq!(one.unwrap(), json!({"a": {"b.c/d.e": 1}}));
        let below = Projection::empty().with_nested("object", projection);
        assert_eq!(
            below.read(br#"{"type": "X", "object": {"a": 1, "y": 2}}"#).unwrap(),
            json!({"object": {"a": 1}})
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_panics(text in ".{0,64}") {
            let projection = Projection::empty().with("a").with("b.c");
            let _ = projection.read(text.as_bytes());
            let document = json!({&text: {&text: [&text]}}).to_string();
            prop_assert!(projection.read(document.as_bytes()).is_ok());
        }
    }
}
