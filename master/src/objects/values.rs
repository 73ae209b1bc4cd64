//! Values that objects are made of: lists, string maps, numbers or strings, and times.

use std::fmt;
use std::ops::Deref;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A list. `null` is an empty list. It is smaller than a `Vec` and has no spare capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct List<T>(Box<[T]>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(elements.into())
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let elements = Option::<Box<[T]>>::deserialize(input)?;
        Ok(Self(elements.unwrap_or_default()))
    }
}

/// Strings by key, such as labels, annotations, or quantities by resource name. `null` is an empty map.
///
/// The entries are sorted by key, in one allocation of the exact size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringMap(Box<[(Box<str>, Box<str>)]>);

impl StringMap {
    /// Returns the value for a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// Whether there is a value for the key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for StringMap {
    /// The last of several entries with the same key counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(Box<str>, Box<str>)> =
            entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        entries.reverse();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.dedup_by(|(one, _), (other, _)| one == other);
        Self(entries.into())
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(StringMapVisitor)
    }
}

struct StringMapVisitor;

impl<'de> Visitor<'de> for StringMapVisitor {
    type Value = StringMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Box<str>, Scalar>()? {
            if let Scalar(Some(text)) = value {
                entries.push((key, text));
            }
        }
        Ok(entries.into_iter().collect())
    }

    fn visit_unit<E: Error>(self) -> Result<StringMap, E> {
        Ok(StringMap::default())
    }
}

/// The text of a string or number, or `None` for other values. Clients may write a quantity as a number.
struct Scalar(Option<Box<str>>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(Some(text.into())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar(Some(text.into())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        self.visit_string(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        self.visit_string(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        self.visit_string(number.to_string())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar(None))
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }
}

/// A number or a string, such as a port or a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    String(Box<str>),
}

/// How [`IntOrString::scaled`] rounds a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    Up,
    Down,
}

impl IntOrString {
    /// Returns the number, or the percentage of `total`. A text that is no percentage, which the API server rejects,
    /// is 0.
    pub fn scaled(&self, total: i64, rounding: Rounding) -> i64 {
        match self {
            Self::Int(number) => *number,
            Self::String(text) => {
                let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or(0);
                let hundredths = percent.saturating_mul(total);
                match rounding {
                    Rounding::Up => hundredths.saturating_add(99) / 100,
                    Rounding::Down => hundredths / 100,
                }
            }
        }
    }
}

/// Decodes a time (RFC 3339). A text that is not a time is treated as absent.
pub fn time<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Timestamp>, D::Error> {
    struct Time;

    impl Visitor<'_> for Time {
        type Value = Option<Timestamp>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Option<Timestamp>, E> {
            Ok(text.parse().ok())
        }

        fn visit_unit<E: Error>(self) -> Result<Option<Timestamp>, E> {
            Ok(None)
        }
    }

    input.deserialize_any(Time)
}

#[cfg(test)]
mod tests {
    //! Tests of values that are absent, null, or written in another way.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct All {
        list: List<Box<str>>,
        map: StringMap,
        port: Option<IntOrString>,
        #[serde(deserialize_with = "time")]
        time: Option<Timestamp>,
    }

    fn read(value: Value) -> All {
        let borrowed = <All as serde::Deserialize>::deserialize(&value).unwrap();
        assert_eq!(borrowed, serde_json::from_str(&value.to_string()).unwrap());
        borrowed
    }

    #[test]
    fn null_and_absent_are_empty() {
        assert_eq!(read(json!({})), All::default());
        assert_eq!(read(json!({"list": null, "map": null, "port": null, "time": null})), All::default());
        assert_eq!(read(json!({"time": "yesterday"})), All::default());
    }

    #[test]
    fn maps_are_sorted_and_searched() {
        let all = read(
            json!({"map": {"c": "3", "a": "1", "b": 2, "f": 1.5, "none": null, "list": [1], "map": {"x": 1}}}),
        );
        assert_eq!(all.map.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "3"), ("f", "1.5")]);
        assert_eq!((all.map.get("b"), all.map.get("d"), all.map.len()), (Some("2"), None, 4));
        let last: StringMap = [("a", "1"), ("a", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(last.iter().collect::<Vec<_>>(), [("a", "3")]);
    }

    #[test]
    fn scalars_are_decoded() {
        let all = read(json!({"list": ["x"], "port": 80, "time": "2026-01-01T00:00:00.000001Z"}));
        assert_eq!((&*all.list, all.port), (&["x".into()][..], Some(IntOrString::Int(80))));
        assert_eq!(all.time, Some("2026-01-01T00:00:00.000001Z".parse().unwrap()));
        assert_eq!(read(json!({"port": "http"})).port, Some(IntOrString::String("http".into())));
    }
}
