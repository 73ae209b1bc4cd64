//! Problems of a manifest: position, error and remedy.

use std::fmt;

/// The kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The kind, such as `Pod`.
    pub kind: String,
    /// The namespace; `default` if the manifest has none.
    pub namespace: String,
    /// The name; may be empty.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A problem of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1-based line, or 0 if the object is not from a text.
    pub line: u32,
    /// 1-based column in characters, or 0 if the object is not from a text.
    pub column: u32,
    /// The field path, such as `spec.containers[0].image`; empty for the whole document.
    pub path: String,
    /// The error, without a full stop.
    pub what: String,
    /// The remedy: what to write instead.
    pub remedy: String,
    /// The object, if it is known.
    pub object: Option<ObjectName>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}
