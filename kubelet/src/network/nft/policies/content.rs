//! The content of a table for comparison with the kernel: layout and elements, and the messages that create or change
//! it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::super::expression::{Expression, value};
use super::super::intervals::IntervalEdge;
use super::super::table::{
    Hook, Layout, SetSpec, elements_of, kind, labelled, new_chain, new_rule, new_set, new_table, remove_of,
};
use super::super::wire::{Attributes, Message};

/// Smallest size of a set, in elements.
const LEAST_SIZE: u32 = 256;
/// The flag `NFT_SET_INTERVAL`.
pub const INTERVALS: u32 = 0x4;
/// Longest text of a comment without its digest. The kernel stores at most 255 bytes.
const MAX_COMMENT: usize = 160;
/// The verdict `NFT_JUMP`.
pub const JUMP: i32 = -3;

/// An element of a set or map: its key, and the chain to which a map of verdicts leads.
pub type Elements = BTreeMap<IntervalEdge, Option<String>>;

/// A set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The flags, and the lengths of key and value. The size is computed.
    pub spec: SetSpec,
    /// The types by which `nft` prints keys and values.
    pub types: (u32, u32),
    /// The elements.
    pub elements: Elements,
}

/// The wanted content of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The chains, in an order in which each one leads only to earlier ones.
    pub chains: Vec<(String, Option<Hook>)>,
    /// The rules: chain, comment and expressions.
    pub rules: Vec<(String, String, Vec<Expression>)>,
    /// The sets by name.
    pub sets: BTreeMap<String, Set>,
}

impl Content {
    /// Adds a rule. Its comment begins with this text.
    pub fn rule(&mut self, chain: &str, comment_text: &str, parts: &[Vec<Expression>]) {
        let text: String = comment_text.chars().take(MAX_COMMENT).collect();
        let (comment, expressions) = labelled(&text, parts.concat());
        self.rules.push((chain.to_owned(), comment, expressions));
    }

    /// Sets the size of each set: that of the known table if its elements fit, otherwise with room to double.
    pub fn choose_sizes(&mut self, known: Option<&Self>) {
        for (name, set) in &mut self.sets {
            if set.spec.flags & INTERVALS != 0 {
                continue;
            }
            let count = u32::try_from(set.elements.len()).unwrap_or(u32::MAX);
            let before = known.and_then(|known| known.sets.get(name)).map(|set| set.spec.most);
            let double = || count.saturating_mul(2).checked_next_power_of_two().unwrap_or(u32::MAX);
            set.spec.most = before.filter(|size| *size >= count).unwrap_or_else(|| double().max(LEAST_SIZE));
        }
    }

    /// Whether two tables have the same chains, rules and sets, regardless of elements.
    pub fn has_layout_of(&self, other: &Self) -> bool {
        let spec = |content: &Self| -> Vec<(String, SetSpec)> {
            content.sets.iter().map(|(name, set)| (name.clone(), set.spec.clone())).collect()
        };
        self.chains == other.chains && self.rules == other.rules && spec(self) == spec(other)
    }

    /// The layout as the kernel reports it.
    pub fn layout(&self) -> Layout {
        let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (chain, comment, _) in &self.rules {
            rules.entry(chain.clone()).or_default().push(comment.clone());
        }
        Layout {
            chains: self.chains.iter().cloned().collect(),
            rules,
            sets: self.sets.iter().map(|(name, set)| (name.clone(), set.spec.clone())).collect(),
            ..Layout::default()
        }
    }

    /// The messages that create the table and replace an existing one.
    pub fn create(&self, family: u8, table: &str) -> Vec<Message> {
        let mut messages = remove_of(family, table);
        messages.push(new_table(family, table));
        for (number, (name, set)) in (1..).zip(&self.sets) {
            messages.push(new_set(family, table, name, &set.spec, set.types, number));
        }
        for (chain, hook) in &self.chains {
            messages.push(new_chain(family, table, chain, hook.as_ref()));
        }
        for (chain, comment, expressions) in &self.rules {
            messages.push(new_rule(family, table, chain, comment, expressions));
        }
        for (name, set) in &self.sets {
            messages.extend(put(family, table, name, set.elements.iter()));
        }
        messages
    }

    /// The messages that change the elements of a table with the same layout.
    pub fn change(&self, family: u8, table: &str, known: &Self) -> Vec<Message> {
        let none = Elements::new();
        let mut messages = Vec::new();
        let before = |name| known.sets.get(name).map_or(&none, |set| &set.elements);
        for (name, set) in &self.sets {
            let gone = before(name).iter().filter(|(key, value)| set.elements.get(key) != Some(value));
            messages.extend(elements_of(family, kind::DELETE_ELEMENT, table, name, &keys(gone)));
        }
        for (name, set) in &self.sets {
            let known = before(name);
            let new = set.elements.iter().filter(|(key, value)| known.get(key) != Some(value));
            messages.extend(put(family, table, name, new));
        }
        messages
    }
}

fn keys<'a>(elements: impl Iterator<Item = (&'a IntervalEdge, &'a Option<String>)>) -> Vec<Attributes> {
    elements.map(|(edge, _)| key(edge)).collect()
}

fn key(edge: &IntervalEdge) -> Attributes {
    let element = Attributes::new().nested(1, &value(&edge.key));
    if edge.is_end { element.number(3, 1) } else { element }
}

fn put<'a>(
    family: u8,
    table: &str,
    set: &str,
    elements: impl Iterator<Item = (&'a IntervalEdge, &'a Option<String>)>,
) -> Vec<Message> {
    let elements = elements.map(|(edge, chain)| match chain {
        None => key(edge),
        Some(chain) => {
            let verdict = Attributes::new().bytes(1, &JUMP.to_be_bytes()).text(2, chain);
            key(edge).nested(2, &Attributes::new().nested(2, &verdict))
        }
    });
    elements_of(family, kind::NEW_ELEMENT, table, set, &elements.collect::<Vec<_>>())
}

/// Elements with these keys and no values.
pub fn plain(keys: BTreeSet<Vec<u8>>) -> Elements {
    keys.into_iter().map(|key| (IntervalEdge { key, is_end: false }, None)).collect()
}
