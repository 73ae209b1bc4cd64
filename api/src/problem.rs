//! What is wrong with a manifest, where, and what to write instead.

use std::fmt;

/// Which object a message is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The kind as the manifest spells it, for example `Pod`.
    pub kind: String,
    /// The namespace, `default` when the manifest names none.
    pub namespace: String,
    /// The name; may be empty when the manifest has none.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// One thing a manifest gets wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1-based line in the source; 0 when the object did not come from a text.
    pub line: u32,
    /// 1-based column in characters; 0 when the object did not come from a text.
    pub column: u32,
    /// The field, for example `spec.containers[0].image`; empty when the whole document is meant.
    pub path: String,
    /// What is wrong, without a full stop.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
    /// The object, when it can be told.
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
