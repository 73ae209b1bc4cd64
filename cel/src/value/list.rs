//! Lists, and how their elements are told apart.

use std::sync::Arc;

use super::{Key, Value};
use crate::budget::Budget;
use crate::error::Error;

/// Values in order.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The values.
    pub items: Vec<Value>,
    /// How they are told apart.
    pub identity: Identity,
    depth: usize,
}

/// How the elements of a list are told apart.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// By where they stand.
    #[default]
    Place,
    /// By what they are: each stands there once, in any order.
    Value,
    /// By some of their fields, in any order.
    Fields(Arc<[String]>),
}

impl List {
    /// These values, told apart in that way.
    pub fn new(items: Vec<Value>, identity: Identity) -> Self {
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Self { items, identity, depth }
    }

    /// How many lists, maps and the like stand in each other here.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Both lists in one; where elements are told apart otherwise than by place, those of `other` take the place of the same ones.
    pub(crate) fn plus(&self, other: &Self, budget: &mut Budget) -> Result<Self, Error> {
        budget.spend(self.items.len() + other.items.len())?;
        let mut items = self.items.clone();
        for item in &other.items {
            match self.find(&items, item, budget)? {
                Some(at) => items[at] = item.clone(),
                None => items.push(item.clone()),
            }
        }
        Ok(Self::new(items, self.identity.clone()))
    }

    /// Where the element stands that is the same one as `item`, unless they are told apart by place.
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

    /// True when both hold the same, in the same order where that counts.
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
