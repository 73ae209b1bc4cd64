//! A keyed store of the objects of one kind.

use std::collections::HashMap;
use std::hash::Hash;

pub type NamespacedName = (String, String);

/// An object with a unique key.
pub trait Keyed {
    /// The key: a name, or a namespace and a name.
    type Key: Clone + Eq + Hash + std::fmt::Debug;

    /// Returns the key of this object.
    fn key(&self) -> &Self::Key;
}

/// All objects of a kind, by key.
#[derive(Debug)]
pub struct Store<T: Keyed>(HashMap<T::Key, T>);

impl<T: Keyed> Default for Store<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Keyed> Store<T> {
    /// Replaces all objects.
    pub fn replace(&mut self, all: Vec<T>) {
        self.0 = all.into_iter().map(|one| (one.key().clone(), one)).collect();
    }

    /// Adds or updates an object.
    pub fn put(&mut self, one: T) {
        self.0.insert(one.key().clone(), one);
    }

    /// Removes an object.
    pub fn remove(&mut self, one: &T) {
        self.0.remove(one.key());
    }

    /// Returns the object with the given key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.0.get(key)
    }

    /// All objects.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}
