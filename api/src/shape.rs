//! Shapes: the properties of types that patches and server-side apply need, such as list keys and atomic types.
//!
//! Patches and server-side apply work on plain JSON and look up the [`Shape`] of each value. Shapes come from the table
//! of built-in types or from the schema of a CustomResourceDefinition.

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
pub(crate) mod sample;

use serde_json::Value;

/// A type of the type table or of a CustomResourceDefinition.
pub trait Node: Send + Sync {
    /// The form of the values of this type.
    fn form(&self) -> Form<'_>;

    /// The field `name`, or `None` if it is unknown. Only called for [`Form::Struct`].
    fn field(&self, name: &str) -> Option<Field<'_>>;
}

/// A type that may be unknown. It is as cheap to copy as a reference.
#[derive(Clone, Copy)]
pub struct Shape<'a>(Option<&'a dyn Node>);

/// The form of the values of a type.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// Unknown: objects are merged by key, lists are replaced.
    Unknown,
    /// A string, number or boolean.
    Scalar,
    /// An object with known fields.
    Struct {
        /// `x-kubernetes-map-type: atomic`: one owner for the whole object.
        atomic: bool,
    },
    /// An object with arbitrary keys.
    Map {
        /// The type of the values.
        values: Shape<'a>,
        /// `x-kubernetes-map-type: atomic`: one owner for the whole map.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of the elements.
        elements: Shape<'a>,
        /// `x-kubernetes-list-type`: how elements are identified.
        list: List<'a>,
    },
}

/// How server-side apply identifies the elements of a list.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// Elements are not identified: the whole list has one owner.
    Atomic,
    /// Elements are identified by value. Each value has its own owners.
    Set,
    /// Elements are identified by these keys (`x-kubernetes-list-map-keys`).
    Map(&'a [String]),
}

/// A field of a struct.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The type of the field.
    pub shape: Shape<'a>,
    /// The strategic merge patch strategy.
    pub patch: Patch<'a>,
    /// The default. Only list keys need one, such as the `protocol` of a port.
    pub default: Option<&'a Value>,
}

/// The strategic merge patch strategy of a field (`x-kubernetes-patch-strategy`). `retainKeys` is not a strategy
/// here: the server applies the directive `$retainKeys` in any patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<'a> {
    /// Objects are merged, other values are replaced.
    #[default]
    Plain,
    /// Any value is replaced.
    Replace,
    /// A list of scalars, merged as a set.
    Merge,
    /// A list of objects, merged by this key, `x-kubernetes-patch-merge-key`.
    MergeBy(&'a str),
}

impl<'a> Shape<'a> {
    /// An unknown type.
    pub const UNKNOWN: Shape<'static> = Shape(None);

    /// The shape of the type `node`.
    pub fn of(node: &'a dyn Node) -> Self {
        Self(Some(node))
    }

    /// The form of the values of this type.
    pub fn form(self) -> Form<'a> {
        self.0.map_or(Form::Unknown, Node::form)
    }

    /// The field or map value at the key `name`.
    pub fn at(self, name: &str) -> Field<'a> {
        self.named(name).unwrap_or_else(|| match self.form() {
            Form::Map { values, .. } => Field::plain(values),
            Form::Unknown | Form::Scalar | Form::Struct { .. } | Form::List { .. } => {
                Field::plain(Shape::UNKNOWN)
            }
        })
    }

    /// The field `name`, if this is a struct with that field.
    pub fn named(self, name: &str) -> Option<Field<'a>> {
        let node = self.0?;
        match node.form() {
            Form::Struct { .. } => node.field(name),
            Form::Unknown | Form::Scalar | Form::Map { .. } | Form::List { .. } => None,
        }
    }
}

impl<'a> Field<'a> {
    /// Creates a field with the default strategy and no default.
    pub fn plain(shape: Shape<'a>) -> Self {
        Self { shape, patch: Patch::Plain, default: None }
    }
}

impl std::fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not recursive, because a type may contain itself.
        f.write_str(match self.form() {
            Form::Unknown => "Unknown",
            Form::Scalar => "Scalar",
            Form::Struct { .. } => "Struct",
            Form::Map { .. } => "Map",
            Form::List { .. } => "List",
        })
    }
}
