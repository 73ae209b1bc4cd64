//! What merging needs to know of a type: which lists have keys, what is atomic, what a patch replaces.
//!
//! Patches and server-side apply work on plain JSON and ask a [`Shape`] as they walk. There are two sources of shapes:
//! the table of the types that are built in, and the schema of a CustomResourceDefinition.

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
pub(crate) mod sample;

use serde_json::Value;

/// One type of one source of types.
pub trait Node: Send + Sync {
    /// What values of this type are made of.
    fn form(&self) -> Form<'_>;

    /// The field `name`; `None` when the type has none of that name. Asked of [`Form::Struct`] only.
    fn field(&self, name: &str) -> Option<Field<'_>>;
}

/// The type of a value, or that nothing is known of it; as cheap to copy as a reference.
#[derive(Clone, Copy)]
pub struct Shape<'a>(Option<&'a dyn Node>);

/// What values of a type are made of.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// Nothing is known: objects merge key by key, lists are replaced, as for objects without a schema.
    Unknown,
    /// One value without parts.
    Scalar,
    /// An object with named fields.
    Struct {
        /// One owner for the whole object, `x-kubernetes-map-type: atomic`.
        atomic: bool,
    },
    /// An object with any keys.
    Map {
        /// What the keys lead to.
        values: Shape<'a>,
        /// One owner for the whole map, `x-kubernetes-map-type: atomic`.
        atomic: bool,
    },
    /// A list.
    List {
        /// What the elements are.
        elements: Shape<'a>,
        /// How elements are told apart, `x-kubernetes-list-type`.
        list: List<'a>,
    },
}

/// How the elements of a list are told apart by server-side apply.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// Not at all: one owner for the whole list.
    Atomic,
    /// By their value: each value has its owners.
    Set,
    /// By these fields of each element, `x-kubernetes-list-map-keys`.
    Map(&'a [String]),
}

/// A field of a struct.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The type of the field.
    pub shape: Shape<'a>,
    /// What a strategic merge patch does with it.
    pub patch: Patch<'a>,
    /// What the field is when it is not given. Only keys of lists need it, such as the `protocol` of a port.
    pub default: Option<&'a Value>,
}

/// What a strategic merge patch does with a field, `x-kubernetes-patch-strategy`. There is no `retainKeys`: it tells
/// clients what to write into a patch, and a server obeys `$retainKeys` wherever it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<'a> {
    /// Objects are merged, everything else is replaced.
    #[default]
    Plain,
    /// Replaced, objects too.
    Replace,
    /// A list of plain values, merged like a set.
    Merge,
    /// A list of objects, merged by this field of each, `x-kubernetes-patch-merge-key`.
    MergeBy(&'a str),
}

impl<'a> Shape<'a> {
    /// Nothing is known.
    pub const UNKNOWN: Shape<'static> = Shape(None);

    /// The type `node`.
    pub fn of(node: &'a dyn Node) -> Self {
        Self(Some(node))
    }

    /// What values of this type are made of.
    pub fn form(self) -> Form<'a> {
        self.0.map_or(Form::Unknown, Node::form)
    }

    /// What the key `name` of an object of this type leads to.
    pub fn at(self, name: &str) -> Field<'a> {
        self.named(name).unwrap_or_else(|| match self.form() {
            Form::Map { values, .. } => Field::plain(values),
            Form::Unknown | Form::Scalar | Form::Struct { .. } | Form::List { .. } => {
                Field::plain(Shape::UNKNOWN)
            }
        })
    }

    /// The field `name`, when this is a struct that has it.
    pub fn named(self, name: &str) -> Option<Field<'a>> {
        let node = self.0?;
        match node.form() {
            Form::Struct { .. } => node.field(name),
            Form::Unknown | Form::Scalar | Form::Map { .. } | Form::List { .. } => None,
        }
    }
}

impl<'a> Field<'a> {
    /// A field that is merged as its type says and has no default.
    pub fn plain(shape: Shape<'a>) -> Self {
        Self { shape, patch: Patch::Plain, default: None }
    }
}

impl std::fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Only what is right here: a type may contain itself.
        f.write_str(match self.form() {
            Form::Unknown => "Unknown",
            Form::Scalar => "Scalar",
            Form::Struct { .. } => "Struct",
            Form::Map { .. } => "Map",
            Form::List { .. } => "List",
        })
    }
}
