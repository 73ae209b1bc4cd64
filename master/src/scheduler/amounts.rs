//! Amounts of what pods ask for and nodes have: the common ones as numbers, all others by name.

use std::collections::BTreeMap;

use api::quantity::Quantity;
use api::resources::ResourceList;
use serde_json::Value;

/// Amounts of resources; each is at least nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Processor, thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, bytes.
    pub memory: i64,
    /// Room on the node's own disk, bytes.
    pub ephemeral: i64,
    /// Everything else: huge pages, devices.
    pub more: BTreeMap<String, i64>,
}

impl Amounts {
    /// Takes over what was added up.
    pub fn of(list: &ResourceList) -> Self {
        let mut amounts = Self::default();
        list.iter().for_each(|(name, amount)| amounts.set(name, *amount));
        amounts
    }

    /// Reads a map of an API object, without `pods`, which is returned beside it.
    pub fn read(map: Option<&Value>) -> (Self, i64) {
        let (mut amounts, mut pods) = (Self::default(), 0);
        for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
            let parsed = match value {
                Value::String(text) => text.parse::<Quantity>().ok(),
                Value::Number(number) => number.to_string().parse().ok(),
                _ => None,
            };
            let Some(amount) = parsed else { continue };
            if name == "pods" {
                pods = amount.units();
            } else {
                amounts.set(name, amount);
            }
        }
        (amounts, pods)
    }

    fn set(&mut self, name: &str, amount: Quantity) {
        match name {
            "cpu" => self.cpu_milli = amount.milli().max(0),
            "memory" => self.memory = amount.units().max(0),
            "ephemeral-storage" => self.ephemeral = amount.units().max(0),
            "pods" => {}
            _ => drop(self.more.insert(name.to_owned(), amount.units().max(0))),
        }
    }

    /// Adds what another pod asks for.
    pub fn add(&mut self, other: &Self) {
        self.cpu_milli = self.cpu_milli.saturating_add(other.cpu_milli);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral = self.ephemeral.saturating_add(other.ephemeral);
        for (name, amount) in &other.more {
            let sum = self.more.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes away what a pod asked for.
    pub fn take(&mut self, other: &Self) {
        self.cpu_milli -= other.cpu_milli;
        self.memory -= other.memory;
        self.ephemeral -= other.ephemeral;
        for (name, amount) in &other.more {
            if let Some(sum) = self.more.get_mut(name) {
                *sum -= amount;
            }
        }
    }

    /// Whether there is any of it.
    pub fn asks_for(&self, name: &str) -> bool {
        match name {
            "cpu" => self.cpu_milli > 0,
            "memory" => self.memory > 0,
            "ephemeral-storage" => self.ephemeral > 0,
            _ => self.more.contains_key(name),
        }
    }

    /// The amount of that name among [`Self::more`].
    pub fn other(&self, name: &str) -> i64 {
        self.more.get(name).copied().unwrap_or_default()
    }
}
