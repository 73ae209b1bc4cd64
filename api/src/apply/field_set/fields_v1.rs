//! The FieldsV1 encoding of field sets in `metadata.managedFields`.
//!
//! A set is an object whose keys are path elements: `f:` (field), `k:` (list keys), `v:` (list value), `i:` (list
//! index). An empty object is a member; a member with members below it has the key `.` too.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use super::{FieldSet, Node, PathElement, below, is_atomic};
use crate::patch::READABLE_DEPTH;
use crate::shape::Shape;

const SELF: &str = ".";

impl FieldSet {
    /// Decodes FieldsV1. Path elements with an unknown prefix are ignored.
    ///
    /// # Errors
    /// If the text is not valid FieldsV1 or nests too deep.
    pub fn parse<'de, D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        Steps { depth: READABLE_DEPTH }.deserialize(fields).map(|node| node.children)
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.nodes.len()))?;
        for (element, node) in &self.nodes {
            map.serialize_entry(&Step(element), node)?;
        }
        map.end()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.member || self.children.is_empty() {
            return self.children.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(SELF, &BTreeMap::<(), ()>::new())?;
        for (element, node) in &self.children.nodes {
            map.serialize_entry(&Step(element), node)?;
        }
        map.end()
    }
}

/// Decodes the subset at one path element, at most `depth` levels deep.
struct Steps {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Steps {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, fields: D) -> Result<Node, D::Error> {
        fields.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Steps {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of steps")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::leaf())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let too_deep = || Error::custom(format_args!("fieldsV1 nests deeper than {READABLE_DEPTH}"));
        let depth = self.depth.checked_sub(1).ok_or_else(too_deep)?;
        let mut node = Node::default();
        while let Some(key) = fields.next_key_seed(Key)? {
            match key {
                Read::Own => {
                    fields.next_value::<IgnoredAny>()?;
                    node.member = true;
                }
                Read::Step(element) => {
                    node.children.put(element, fields.next_value_seed(Self { depth })?);
                }
                Read::Unknown => drop(fields.next_value_seed(Self { depth })?),
            }
        }
        node.member |= node.children.is_empty();
        Ok(node)
    }
}

impl FieldSet {
    /// Intersects this set with an encoded one, and decodes only the shared part. Returns `None` if the encoded set is
    /// invalid, or if it must be adapted to the schema first.
    pub(in crate::apply) fn common_with(&self, text: &str, shape: Shape<'_>) -> Option<Self> {
        let mut text = serde_json::Deserializer::from_str(text);
        let read = Common { of: self, member: false, shape }.deserialize(&mut text);
        read.ok().map(|node| node.children)
    }
}

/// Decodes the intersection of a set with an encoded one.
struct Common<'a> {
    /// The wanted members below this path element.
    of: &'a FieldSet,
    /// True if the path element itself is wanted.
    member: bool,
    shape: Shape<'a>,
}

impl<'de> DeserializeSeed<'de> for Common<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, fields: D) -> Result<Node, D::Error> {
        fields.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Common<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of steps")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node { member: self.member, children: FieldSet::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let (mut is_own, mut has_below, mut children) = (false, false, FieldSet::default());
        while let Some(key) = fields.next_key_seed(Key)? {
            match key {
                Read::Own => is_own = true,
                Read::Step(element) => {
                    has_below = true;
                    if let Some(wanted) = self.of.nodes.get(&element) {
                        let (of, shape) = (&wanted.children, below(self.shape, &element));
                        let found = fields.next_value_seed(Common { of, member: wanted.member, shape })?;
                        children.put(element, found);
                        continue;
                    }
                }
                Read::Unknown => return Err(Error::custom("unknown type of path element")),
            }
            fields.next_value::<IgnoredAny>()?;
        }
        if has_below && is_atomic(self.shape) {
            return Err(Error::custom("the field is atomic now, but the set has fields below it"));
        }
        Ok(Node { member: self.member && (is_own || !has_below), children })
    }
}

/// Decodes a key of FieldsV1.
struct Key;

/// A decoded key of FieldsV1.
enum Read {
    /// `.`: the field itself is a member.
    Own,
    Step(PathElement),
    /// A key with an unknown prefix, as newer versions may write.
    Unknown,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Read, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Read, E> {
        if key == SELF {
            return Ok(Read::Own);
        }
        parse(key).map(|element| element.map_or(Read::Unknown, Read::Step)).map_err(E::custom)
    }
}

fn parse(key: &str) -> Result<Option<PathElement>, String> {
    let Some((kind, text)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(format!("`{key}` is not a path element; path elements begin with f:, k:, v: or i:"));
    };
    let unreadable = |error: &dyn Display| format!("`{key}`: {error}");
    Ok(match kind {
        "f" => Some(PathElement::Field(text.to_owned())),
        "v" => {
            let value: Value = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            Some(PathElement::Value(value.to_string()))
        }
        "k" => {
            let fields: BTreeMap<String, Value> =
                serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            Some(PathElement::Key(
                fields.into_iter().map(|(name, value)| (name, value.to_string())).collect(),
            ))
        }
        "i" => Some(PathElement::Index(text.parse().map_err(|error| unreadable(&error))?)),
        _ => None,
    })
}

/// Writes a path element as a key.
struct Step<'a>(&'a PathElement);

impl Serialize for Step<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PathElement::Field(name) => write!(f, "f:{name}"),
            PathElement::Value(value) => write!(f, "v:{value}"),
            PathElement::Key(fields) => {
                f.write_str("k:{")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{value}", Value::from(name.as_str()))?;
                }
                f.write_str("}")
            }
            PathElement::Index(index) => write!(f, "i:{index}"),
        }
    }
}
