//! Parses type tables: one line per type, one indented line per field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Types by name.
#[derive(Debug)]
pub struct Schema {
    types: BTreeMap<&'static str, Type>,
}

/// A type with named fields.
#[derive(Debug)]
pub struct Type {
    /// The name, such as `PodSpec`.
    pub name: &'static str,
    /// The names and types of the fields, in alphabetical order.
    pub fields: Vec<(&'static str, Kind)>,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Double,
    /// A 32-bit integer or a string.
    IntOrString,
    /// A resource quantity.
    Quantity,
    /// A time in RFC 3339, in seconds.
    Time,
    /// A time in RFC 3339, in microseconds.
    MicroTime,
    /// Bytes in base64.
    Bytes,
    /// Any JSON value.
    Any,
    /// An object of the named type.
    Object(&'static str),
    /// A union: the value of one of the fields of the named type.
    OneOf(&'static str),
    /// A list.
    List(Box<Kind>),
    /// A map with string keys.
    Map(Box<Kind>),
}

impl Schema {
    /// Parses tables; later ones add types, and fields to types. The tables are part of the program, and tests check
    /// them. Invalid lines are treated as unknown types.
    pub fn parse(tables: &[&'static str]) -> Self {
        let mut types = BTreeMap::<&'static str, Type>::new();
        let mut current = "";
        let lines = tables.iter().flat_map(|table| table.lines());
        for line in lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("  ") {
                None => {
                    current = line.trim();
                    types.entry(current).or_insert_with(|| Type { name: current, fields: Vec::new() });
                }
                Some(field) => {
                    let (name, kind) = field.trim().split_once(' ').unwrap_or((field.trim(), ""));
                    if let Some(of) = types.get_mut(current) {
                        of.fields.retain(|(field, _)| *field != name);
                        of.fields.push((name, Kind::parse(kind.trim())));
                    }
                }
            }
        }
        Self { types }
    }

    /// Returns the type with the given name.
    pub fn get(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// All types, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        self.types.values()
    }
}

impl Type {
    /// The type of the field `name`.
    pub fn field(&self, name: &str) -> Option<&Kind> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, kind)| kind)
    }
}

impl Kind {
    pub(super) fn parse(text: &'static str) -> Self {
        if let Some(of) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(of)));
        }
        if let Some(of) = text.strip_prefix("map ").or_else(|| text.strip_prefix("{}")) {
            return Self::Map(Box::new(Self::parse(of)));
        }
        if let Some(of) = text.strip_prefix("oneOf:") {
            return Self::OneOf(of);
        }
        match text {
            "string" => Self::String,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "intOrString" => Self::IntOrString,
            "quantity" => Self::Quantity,
            "time" => Self::Time,
            "microTime" => Self::MicroTime,
            "bytes" => Self::Bytes,
            "any" => Self::Any,
            name => Self::Object(name),
        }
    }
}

/// The types of `v1` Pods, ConfigMaps and Secrets.
pub fn v1() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(&[include_str!("v1.txt")]));
    &SCHEMA
}
