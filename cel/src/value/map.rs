//! Maps and their keys.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Value;
use crate::error::Error;

/// A map key. Signed and unsigned integers of the same value are equal.
#[derive(Clone, Debug)]
pub enum Key {
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A string.
    String(Arc<str>),
}

/// A CEL map.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: BTreeMap<Key, Value>,
    /// The nesting depth of the deepest value.
    below: usize,
}

impl Map {
    /// The value of a key.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.entries.get(key)
    }

    /// The value of a string key.
    pub fn field(&self, name: &Arc<str>) -> Option<&Value> {
        self.entries.get(&Key::String(name.clone()))
    }

    /// All entries, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.entries.iter()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry. Returns false if it replaced another one.
    pub(crate) fn add(&mut self, key: Key, value: Value) -> bool {
        self.below = self.below.max(value.depth());
        self.entries.insert(key, value).is_none()
    }

    /// The nesting depth of the map.
    pub(super) fn depth(&self) -> usize {
        self.below + 1
    }
}

impl FromIterator<(Key, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (Key, Value)>>(entries: T) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.add(key, value);
        }
        map
    }
}

impl Key {
    /// Converts a value to a key. A number with a fraction is an error.
    pub(crate) fn of(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Bool(value) => Ok(Self::Bool(*value)),
            Value::Int(value) => Ok(Self::Int(*value)),
            Value::Uint(value) => Ok(Self::Uint(*value)),
            Value::String(text) => Ok(Self::String(text.clone())),
            Value::Double(value) => match whole(*value) {
                Some(value) => Ok(Self::Int(value)),
                None => Err(Error::no_such_key(value)),
            },
            other => Err(Error::failed(format!("unsupported key type: {}", other.type_name()))),
        }
    }

    /// Converts the key to a value.
    pub fn value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    /// The sort order of keys: first the type, then the number.
    fn rank(&self) -> (u8, i128) {
        match self {
            Self::Bool(value) => (0, i128::from(*value)),
            Self::Int(value) => (1, i128::from(*value)),
            Self::Uint(value) => (1, i128::from(*value)),
            Self::String(_) => (2, 0),
        }
    }
}

/// Converts a number to an integer. Returns `None` if it has a fraction.
fn whole(value: f64) -> Option<i64> {
    let text = format!("{value:.0}");
    let whole: i64 = text.parse().ok()?;
    (value.fract() == 0.0).then_some(whole)
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(one), Self::String(two)) => one.cmp(two),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::String(text) => f.write_str(text),
        }
    }
}
