//! Lists, and how Kubernetes list types identify elements.

use std::sync::Arc;

use super::{Key, Value};
use crate::budget::Budget;
use crate::error::Error;

/// A CEL list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The elements.
    pub items: Vec<Value>,
    /// How elements are identified.
    pub identity: Identity,
    depth: usize,
}

/// How the elements of a list are identified (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// Elements are identified by index (`atomic`).
    #[default]
    Place,
    /// Elements are identified by value, in any order (`set`).
    Value,
    /// Elements are identified by key fields, in any order (`map`).
    Fields(Arc<[String]>),
}

impl List {
    /// Creates a list.
    pub fn new(items: Vec<Value>, identity: Identity) -> Self {
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Self { items, identity, depth }
    }

    /// The nesting depth of the list.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Concatenates lists. For sets and maps, elements of `other` replace those with the same identity.
    pub(crate) fn plus(&self, other: &Self, budget: &mut Budget) -> Result<Self, Error> {
        budget.charge(self.items.len() + other.items.len())?;
        let mut items = self.items.clone();
        for item in &other.items {
            match self.find(&items, item, budget)? {
                Some(at) => items[at] = item.clone(),
                None => items.push(item.clone()),
            }
        }
        Ok(Self::new(items, self.identity.clone()))
    }

    /// The index of the element with the same identity as `item`, or `None` for atomic lists.
    fn find(&self, items: &[Value], item: &Value, budget: &mut Budget) -> Result<Option<usize>, Error> {
        for (at, other) in items.iter().enumerate() {
            let is_same = match &self.identity {
                Identity::Place => return Ok(None),
                Identity::Value => other.equals(item, budget)?,
                Identity::Fields(names) => {
                    let mut is_same = true;
                    for name in names.iter() {
                        is_same = is_same
                            && match (field(other, name), field(item, name)) {
                                (Some(one), Some(two)) => one.equals(two, budget)?,
                                (None, None) => true,
                                (None, Some(_)) | (Some(_), None) => false,
                            };
                    }
                    is_same
                }
            };
            if is_same {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// True if both lists are equal. The order counts only for atomic lists.
    pub(super) fn equals(&self, other: &Self, budget: &mut Budget) -> Result<bool, Error> {
        if self.items.len() != other.items.len() {
            return Ok(false);
        }
        let is_ordered = matches!(self.identity, Identity::Place);
        for (at, item) in self.items.iter().enumerate() {
            let twin = if is_ordered { Some(at) } else { self.find(&other.items, item, budget)? };
            let Some(twin) = twin.and_then(|twin| other.items.get(twin)) else { return Ok(false) };
            if !item.equals(twin, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Map(map) => map.get(&Key::from(name)),
        _ => None,
    }
}
