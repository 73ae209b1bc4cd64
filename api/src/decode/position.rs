//! Finds the line and column of a field path. Only called when there are errors to report.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use crate::path::OwnedStep;

/// A position in a text; line and column are 1-based, the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    fn of(at: serde_yaml::Location) -> Self {
        Self {
            line: u32::try_from(at.line()).unwrap_or(u32::MAX).max(1),
            column: u32::try_from(at.column()).unwrap_or(u32::MAX).max(1),
        }
    }
}

/// A document with the position of each value and key.
#[derive(Debug)]
pub(super) struct Located {
    pub at: Position,
    pub node: Node,
}

#[derive(Debug)]
pub(super) enum Node {
    Leaf,
    List(Vec<Located>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: Position,
    pub value: Located,
}

impl Located {
    /// The position of the value at `steps`, or of the innermost parent that exists.
    pub(super) fn find(&self, steps: &[OwnedStep], at_name: bool) -> Position {
        let mut here = self;
        for (index, step) in steps.iter().enumerate() {
            let last = index + 1 == steps.len();
            match (&here.node, step) {
                (Node::Map(entries), OwnedStep::Field(name) | OwnedStep::Key(name)) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == *name) else { break };
                    if last && at_name {
                        return entry.key_at;
                    }
                    here = &entry.value;
                }
                (Node::List(values), OwnedStep::Index(index)) => {
                    let Some(value) = values.get(*index) else { break };
                    here = value;
                }
                _ => break,
            }
        }
        here.at
    }
}

/// The positions in a valid YAML document.
pub(super) fn of_yaml(text: &str) -> Option<Located> {
    let spanned = serde_yaml::from_str_with_options::<Spanned<Node>>(text, super::yaml::options()).ok()?;
    Some(Located { at: Position::of(spanned.referenced), node: spanned.value })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut values = Vec::new();
        while let Some(spanned) = list.next_element::<Spanned<Node>>()? {
            values.push(Located { at: Position::of(spanned.referenced), node: spanned.value });
        }
        Ok(Node::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let value = entries.next_value::<Spanned<Node>>()?;
            map.push(Entry {
                key: key.value,
                key_at: Position::of(key.referenced),
                value: Located { at: Position::of(value.referenced), node: value.value },
            });
        }
        Ok(Node::Map(map))
    }
}
