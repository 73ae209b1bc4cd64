//! Reads the table of types: one line a type, one indented line a field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Types by name.
#[derive(Debug)]
pub struct Schema {
    types: BTreeMap<&'static str, Type>,
}

/// An object type and its fields, in alphabetical order.
#[derive(Debug)]
pub struct Type {
    /// The name, such as `PodSpec`.
    pub name: &'static str,
    /// Names and kinds of the fields.
    pub fields: Vec<(&'static str, Kind)>,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    String,
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number, whole or not.
    Double,
    /// A whole number of 32 bits, or text.
    IntOrString,
    /// An amount of a resource.
    Quantity,
    /// A moment, in RFC 3339.
    Time,
    /// A moment to the microsecond, in RFC 3339.
    MicroTime,
    /// Bytes, in base64.
    Bytes,
    /// Anything at all.
    Any,
    /// An object of that type.
    Object(&'static str),
    /// What one of the fields of that type holds, in place of the object.
    OneOf(&'static str),
    /// A list of the same.
    List(Box<Kind>),
    /// A map from text to the same.
    Map(Box<Kind>),
}

impl Schema {
    /// Reads tables, one on top of the other: later ones add types, and fields to types. The tables are part of the
    /// program; what makes no sense in them is found by tests, and read as a type that is not there.
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

    /// The type of that name.
    pub fn get(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// Every type, by name.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        self.types.values()
    }
}

impl Type {
    /// The kind of the field `name`.
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

/// Every type that a `v1` Pod, ConfigMap or Secret is made of.
pub fn v1() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(&[include_str!("v1.txt")]));
    &SCHEMA
}
