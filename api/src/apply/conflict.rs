//! Fields that an applier may not change because others own them.

use std::fmt;

use super::managed::Identity;
use super::set::Set;

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager, as messages name it: `"kubectl-scale" with subresource "scale" using apps/v1`.
    pub manager: String,
    /// The field: `.spec.replicas`.
    pub path: String,
}

/// Every field that an apply may not change. Never empty in an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// Adds the fields that one manager owns.
    pub(super) fn add(&mut self, manager: &Identity, fields: &Set) {
        for path in fields.paths() {
            self.0.push(Conflict { manager: manager.to_string(), path: path.to_string() });
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    /// In the words of the stock server, which clients show as they are.
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
