//! A structural schema, read once into a compact tree: what fields there are, their defaults and their rules.

mod fill;
mod node;
mod pattern;
mod prune;
mod read;

use serde_json::{Number, Value};

pub(super) use self::pattern::Pattern;
use super::rules::Rule;

/// How deep a schema may nest: more than any that is written, less than what a walk needs a large stack for.
pub(super) const MAX_DEPTH: usize = 64;

/// What objects of one version of a kind, or parts of them, are made of.
#[derive(Debug, Default)]
pub struct Schema {
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// Fields that are not named are kept.
    pub(super) preserves: bool,
    /// The object has `apiVersion`, `kind` and `metadata` of its own.
    pub(super) is_embedded: bool,
    /// One owner for the whole object.
    pub(super) is_atomic: bool,
    pub(super) list: ListType,
    pub(super) default: Option<Box<Value>>,
    /// By name, so that a field is found fast.
    pub(super) properties: Box<[(Box<str>, Schema)]>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    pub(super) rules: Option<Box<Rules>>,
    /// Expressions that hold for the value.
    pub(super) validations: Box<[Rule]>,
    /// There are some, here or below.
    pub(super) is_judged: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Anything.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// What becomes of keys that are not named.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// There are none.
    #[default]
    None,
    /// They may be there; nothing is said of what they lead to.
    Any,
    /// They lead to this.
    Schema(Box<Schema>),
}

/// How the elements of a list are told apart.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Box<[String]>),
}

/// Rules for a value beyond its type.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub format: Option<Box<str>>,
    pub values: Option<Box<[Value]>>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<Number>,
    pub length: Range,
    pub items: Range,
    pub properties: Range,
    pub pattern: Option<Pattern>,
    pub unique: bool,
    pub required: Box<[Box<str>]>,
    pub all_of: Box<[Schema]>,
    pub any_of: Box<[Schema]>,
    pub one_of: Box<[Schema]>,
    pub not: Option<Box<Schema>>,
}

/// The least or the greatest number.
#[derive(Debug)]
pub(super) struct Bound {
    pub value: Number,
    pub exclusive: bool,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub least: Option<u64>,
    pub most: Option<u64>,
}

impl Schema {
    /// The field `name`, when it is one of those that are named.
    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// True when anything is filled in, anywhere.
    pub fn has_defaults(&self) -> bool {
        let values = match &self.additional {
            Additional::Schema(values) => Some(&**values),
            Additional::Any | Additional::None => None,
        };
        let parts = self.properties.iter().map(|(_, property)| property);
        self.default.is_some() || parts.chain(values).chain(self.items.as_deref()).any(Self::has_defaults)
    }

    /// True for `apiVersion`, `kind` and `metadata` of an object in an object.
    pub(super) fn is_meta(&self, name: &str) -> bool {
        self.is_embedded && matches!(name, "apiVersion" | "kind" | "metadata")
    }
}

impl Kind {
    /// The word schemas use; empty for anything.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}
