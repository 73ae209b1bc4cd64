//! What the pure checks find: a path, what is wrong there, and what to write instead.

use crate::path::{Path, PathBuf};

/// How many findings of one document are kept: more than anyone reads, few enough that a hostile file costs nothing.
pub const MAX_FAULTS: usize = 100;

/// A finding that does not know its place in a text yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the object.
    pub path: PathBuf,
    /// Points at the field's name rather than its value, because the name is what is wrong.
    pub at_name: bool,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

/// Collects findings up to [`MAX_FAULTS`].
#[derive(Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
}

impl Faults {
    /// Notes that the value at `path` is wrong.
    pub fn add(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.push(path, false, what.into(), remedy.into());
    }

    /// Notes that the name at the end of `path` is wrong, whatever its value.
    pub fn add_name(&mut self, path: &Path<'_>, what: impl Into<String>, remedy: impl Into<String>) {
        self.push(path, true, what.into(), remedy.into());
    }

    fn push(&mut self, path: &Path<'_>, at_name: bool, what: String, remedy: String) {
        if self.kept.len() < MAX_FAULTS {
            self.kept.push(Fault { path: path.to_owned(), at_name, what, remedy });
        }
    }

    /// True when nothing was found.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What was found, in the order it was found.
    pub fn into_vec(self) -> Vec<Fault> {
        self.kept
    }
}
