//! Sets of fields as they stand in `metadata.managedFields`: FieldsV1.
//!
//! Objects in objects, whose keys are steps: `f:` a field, `k:` the keys of an element of a list, `v:` its value, `i:`
//! its place. A step with nothing below is a member; one with members below is one when it has the key `.` too.

use serde_json::{Map, Value};

use super::{Element, Node, Set};
use crate::patch::READABLE_DEPTH;

const SELF: &str = ".";

impl Set {
    /// Reads FieldsV1. Steps of a kind that is not known are left out.
    ///
    /// # Errors
    /// What is wrong with it, for a message.
    pub fn parse(fields: &Value) -> Result<Self, String> {
        match fields {
            Value::Object(fields) => Ok(read(fields, READABLE_DEPTH)?.children),
            Value::Null => Ok(Self::default()),
            _ => Err("fieldsV1 is no object".to_owned()),
        }
    }

    /// Writes FieldsV1.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.nodes.iter().map(|(element, node)| (print(element), write(node))).collect())
    }
}

fn read(fields: &Map<String, Value>, depth: usize) -> Result<Node, String> {
    let depth = depth.checked_sub(1).ok_or_else(|| format!("fieldsV1 nests deeper than {READABLE_DEPTH}"))?;
    let mut node = Node::default();
    for (key, value) in fields {
        if key == SELF {
            node.member = true;
        } else if let Some(element) = parse(key)? {
            let child = match value {
                Value::Object(fields) => read(fields, depth)?,
                Value::Null => Node::leaf(),
                _ => return Err(format!("`{key}` leads to what is no object")),
            };
            node.children.put(element, child);
        }
    }
    node.member |= node.children.is_empty();
    Ok(node)
}

fn write(node: &Node) -> Value {
    let Value::Object(children) = node.children.to_fields() else { return Value::Null };
    let own = (node.member && !children.is_empty()).then(|| (SELF.to_owned(), Value::Object(Map::new())));
    Value::Object(own.into_iter().chain(children).collect())
}

fn parse(key: &str) -> Result<Option<Element>, String> {
    let Some((kind, text)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(format!("`{key}` is no step; steps begin with f:, k:, v: or i:"));
    };
    let unreadable = |error: &dyn std::fmt::Display| format!("`{key}`: {error}");
    Ok(match kind {
        "f" => Some(Element::Field(text.to_owned())),
        "v" => {
            let value: Value = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            Some(Element::Value(value.to_string()))
        }
        "k" => {
            let fields: Map<String, Value> =
                serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            let mut fields: Vec<_> =
                fields.into_iter().map(|(name, value)| (name, value.to_string())).collect();
            fields.sort();
            Some(Element::Key(fields))
        }
        "i" => Some(Element::Index(text.parse().map_err(|error| unreadable(&error))?)),
        _ => None,
    })
}

fn print(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Value(value) => format!("v:{value}"),
        Element::Key(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::String(name.clone())))
                .collect();
            format!("k:{{{}}}", fields.join(","))
        }
        Element::Index(index) => format!("i:{index}"),
    }
}
