//! Resource amounts (framework.Resource): CPU, memory and ephemeral storage as fields, all others by name.

use std::collections::BTreeMap;

use api::quantity::Quantity;
use api::resources::ResourceList;

use crate::objects::StringMap;
use crate::objects::resources::quantities;

/// Resource amounts. None of them is negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// CPU in millicores.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// All other resources, such as huge pages and extended resources.
    pub scalar: BTreeMap<String, i64>,
}

impl Resource {
    /// Converts a resource list.
    pub fn of(list: &ResourceList) -> Self {
        let mut amounts = Self::default();
        list.iter().for_each(|(name, amount)| amounts.set(name, *amount));
        amounts
    }

    /// Parses a resource map. Returns the amount of `pods` separately.
    pub fn read(map: &StringMap) -> (Self, i64) {
        let list = quantities(map);
        (Self::of(&list), list.get("pods").map_or(0, |pods| pods.units()))
    }

    fn set(&mut self, name: &str, amount: Quantity) {
        match name {
            "cpu" => self.cpu_milli = amount.milli().max(0),
            "memory" => self.memory = amount.units().max(0),
            "ephemeral-storage" => self.ephemeral_storage = amount.units().max(0),
            "pods" => {}
            _ => drop(self.scalar.insert(name.to_owned(), amount.units().max(0))),
        }
    }

    /// Adds the amounts of a pod.
    pub fn add(&mut self, other: &Self) {
        self.cpu_milli = self.cpu_milli.saturating_add(other.cpu_milli);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let sum = self.scalar.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Subtracts the amounts of a pod.
    pub fn subtract(&mut self, other: &Self) {
        self.cpu_milli -= other.cpu_milli;
        self.memory -= other.memory;
        self.ephemeral_storage -= other.ephemeral_storage;
        for (name, amount) in &other.scalar {
            if let Some(sum) = self.scalar.get_mut(name) {
                *sum -= amount;
            }
        }
    }

    /// Whether the amount of the resource is set.
    pub fn includes(&self, name: &str) -> bool {
        match name {
            "cpu" => self.cpu_milli > 0,
            "memory" => self.memory > 0,
            "ephemeral-storage" => self.ephemeral_storage > 0,
            _ => self.scalar.contains_key(name),
        }
    }

    /// Returns the amount in [`Self::scalar`] with the given name, or 0.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalar.get(name).copied().unwrap_or_default()
    }
}
