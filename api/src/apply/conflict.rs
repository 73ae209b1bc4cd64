//! Conflicts of server-side apply: fields that another field manager owns.

use std::fmt;

use super::field_set::FieldSet;
use super::managed::ManagerIdentity;

/// A field that another field manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager in the notation of the error message: `"kubectl-scale" with subresource "scale" using apps/v1`.
    pub manager: String,
    /// The path of the field, such as `.spec.replicas`.
    pub path: String,
}

/// All conflicts of one apply request. Never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// Adds the fields that one manager owns.
    pub(super) fn add(&mut self, manager: &ManagerIdentity, fields: &FieldSet) {
        for path in fields.paths() {
            self.0.push(Conflict { manager: manager.to_string(), path: path.to_string() });
        }
    }

    /// True if there are no conflicts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    /// Writes the message of the stock API server, because clients show it unchanged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, path }] = &*self.0 {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, managed) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            if let Some(Conflict { manager, .. }) = managed.first() {
                write!(f, "conflicts with {manager}:")?;
            }
            for Conflict { path, .. } in managed {
                write!(f, "\n- {path}")?;
            }
        }
        Ok(())
    }
}
