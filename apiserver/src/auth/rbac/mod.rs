//! RBAC authorizer: an index of roles and bindings that is up to date for every decision.

pub mod aggregate;
pub mod bootstrap_policy;
mod escalation;
pub mod index;
pub mod reconciler;
pub mod rule;

use crate::auth::attributes::Attributes;
use crate::auth::synced_index::{self, SyncedIndex};
use crate::identity::Identity;
use crate::watch_cache::{Object, WatchCache};

pub use index::{Decision, Index};
pub use rule::Rule;

/// The RBAC kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A role with rules for one namespace.
    Role,
    /// A role with rules for all namespaces and for cluster-scoped resources.
    ClusterRole,
    /// A binding that grants a role in one namespace.
    RoleBinding,
    /// A binding that grants a cluster role everywhere.
    ClusterRoleBinding,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// Whether the kind is a role, not a binding.
    pub fn is_role(self) -> bool {
        matches!(self, Self::Role | Self::ClusterRole)
    }

    /// Plural name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// Returns the kind with the given plural name.
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// Name of the resource in the storage, with its group.
    pub fn qualified(self) -> String {
        format!("{}.{}", self.plural(), index::RBAC)
    }
}

/// The RBAC authorizer. It reads roles and bindings from a watch cache, and a written role takes effect with the
/// next request.
#[derive(Debug)]
pub struct Authorizer {
    index: SyncedIndex<Index>,
}

impl Authorizer {
    /// Creates an authorizer that reads the watch cache.
    pub fn new(store: WatchCache) -> Self {
        Self { index: SyncedIndex::new(store) }
    }

    /// Decides whether a user may send a request with these attributes.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        self.with_index(|index| index.decide(who, attributes))
    }

    /// Brings the index up to date, and runs `query` on it.
    pub fn with_index<T>(&self, query: impl FnOnce(&Index) -> T) -> T {
        self.index.with_index(query)
    }
}

impl synced_index::Index for Index {
    type Kind = Kind;
    const KINDS: &'static [Kind] = &Kind::ALL;

    fn resource(kind: Kind) -> String {
        kind.qualified()
    }

    fn upsert(&mut self, kind: Kind, object: &Object) {
        self.put(kind, &object.decode());
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.remove(kind, namespace, name);
    }
}

#[cfg(test)]
mod tests;
