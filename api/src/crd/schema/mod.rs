//! A structural schema in compact form: fields, defaults and validations.

mod defaulting;
mod prune;
mod read;
mod shape;

use regex_lite::Regex;
use serde_json::{Number, Value};

use super::rules::Rule;

/// Limit for the nesting of schemas. It keeps recursive functions within a small stack.
pub(super) const MAX_DEPTH: usize = 64;

/// The schema of a version of a custom resource, or of a part of it.
#[derive(Debug, Default)]
pub struct Schema {
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`: unknown fields are kept.
    pub(super) preserves: bool,
    /// `x-kubernetes-embedded-resource`: the object has its own `apiVersion`, `kind` and `metadata`.
    pub(super) is_embedded: bool,
    /// `x-kubernetes-map-type: atomic`.
    pub(super) is_atomic: bool,
    pub(super) list: ListType,
    pub(super) default: Option<Box<Value>>,
    /// The properties, sorted by name for binary search.
    pub(super) properties: Box<[(Box<str>, Schema)]>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    pub(super) rules: Option<Box<ValueValidation>>,
    /// The CEL rules for the value.
    pub(super) validations: Box<[Rule]>,
    /// True if there are CEL rules here or below.
    pub(super) has_rules: bool,
}

/// The type of a value, with its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// No type is defined.
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

/// `additionalProperties`.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// Additional properties are not allowed.
    #[default]
    None,
    /// Additional properties are allowed, without a schema.
    Any,
    /// Additional properties are allowed. Their values must match this schema.
    Schema(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Box<[String]>),
}

/// Validations of a value beyond its type.
#[derive(Debug, Default)]
pub(super) struct ValueValidation {
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

/// A minimum or maximum.
#[derive(Debug)]
pub(super) struct Bound {
    pub value: Number,
    pub exclusive: bool,
}

/// A minimum and maximum number of items, properties or characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub least: Option<u64>,
    pub most: Option<u64>,
}

impl Schema {
    /// The schema of the property `name`.
    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// True if the schema has a default anywhere.
    pub fn has_defaults(&self) -> bool {
        let values = match &self.additional {
            Additional::Schema(values) => Some(&**values),
            Additional::Any | Additional::None => None,
        };
        let parts = self.properties.iter().map(|(_, property)| property);
        self.default.is_some() || parts.chain(values).chain(self.items.as_deref()).any(Self::has_defaults)
    }

    /// True for `apiVersion`, `kind` and `metadata` of an embedded resource.
    pub(super) fn is_meta(&self, name: &str) -> bool {
        self.is_embedded && matches!(name, "apiVersion" | "kind" | "metadata")
    }
}

impl Kind {
    /// The type name for messages; empty for [`Kind::Any`].
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

/// A regular expression of a schema. Some patterns are accepted but not enforced.
#[derive(Debug)]
pub(in crate::crd) struct Pattern {
    pub text: Box<str>,
    /// `None` for a pattern with Unicode classes, whose tables would be too large. Such a pattern matches everything.
    regex: Option<Regex>,
}

impl Pattern {
    /// Parses a regular expression.
    ///
    /// # Errors
    /// If the parser rejects the pattern.
    pub fn read(text: &str) -> Result<Self, String> {
        let has_unicode_classes = text.contains("\\p") || text.contains("\\P");
        let regex = match Regex::new(text) {
            Ok(regex) => Some(regex),
            Err(_) if has_unicode_classes => None,
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self { text: text.into(), regex })
    }

    /// True if any part of the text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    /// True if the pattern is enforced.
    pub fn is_enforced(&self) -> bool {
        self.regex.is_some()
    }
}
