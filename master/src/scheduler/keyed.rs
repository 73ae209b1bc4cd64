//! A table of what the server has of one kind, by what tells one from another.

use std::collections::HashMap;
use std::hash::Hash;

/// Namespace and name.
pub type Place = (String, String);

/// What tells one from all others of its kind.
pub trait Keyed {
    /// A name, or a namespace and a name.
    type Key: Clone + Eq + Hash + std::fmt::Debug;

    /// That of this one.
    fn key(&self) -> &Self::Key;
}

/// All there are of a kind.
#[derive(Debug)]
pub struct Table<T: Keyed>(HashMap<T::Key, T>);

impl<T: Keyed> Default for Table<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Keyed> Table<T> {
    /// Takes in all there are.
    pub fn replace(&mut self, all: Vec<T>) {
        self.0 = all.into_iter().map(|one| (one.key().clone(), one)).collect();
    }

    /// Takes one in as it is now.
    pub fn put(&mut self, one: T) {
        self.0.insert(one.key().clone(), one);
    }

    /// Takes one out.
    pub fn remove(&mut self, one: &T) {
        self.0.remove(one.key());
    }

    /// The one of that key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.0.get(key)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}
