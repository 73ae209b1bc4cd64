//! Maps, and what may be a key.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Value;
use crate::error::Error;

/// What a value of a map is found by. Whole numbers are the same key with a sign and without.
#[derive(Clone, Debug)]
pub enum Key {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is never negative.
    Uint(u64),
    /// A text.
    String(Arc<str>),
}

/// Values by key.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: BTreeMap<Key, Value>,
    /// Of the deepest value.
    below: usize,
}

impl Map {
    /// What stands under a key.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.entries.get(key)
    }

    /// What stands under a name.
    pub fn field(&self, name: &Arc<str>) -> Option<&Value> {
        self.entries.get(&Key::String(name.clone()))
    }

    /// Every entry, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.entries.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True for none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts a value under a key where there is none yet; false when there was one.
    pub(crate) fn add(&mut self, key: Key, value: Value) -> bool {
        self.below = self.below.max(value.depth());
        self.entries.insert(key, value).is_none()
    }

    /// How many lists, maps and the like stand in each other here.
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
    /// The key that a value is; a number with a fraction is none.
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

    /// The key as a value.
    pub fn value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    /// Its place among the kinds of keys, and the number where it is one.
    fn rank(&self) -> (u8, i128) {
        match self {
            Self::Bool(value) => (0, i128::from(*value)),
            Self::Int(value) => (1, i128::from(*value)),
            Self::Uint(value) => (1, i128::from(*value)),
            Self::String(_) => (2, 0),
        }
    }
}

/// The whole number that a number is, if it is one.
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
