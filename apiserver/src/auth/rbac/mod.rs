//! Roles decide: an index of roles and bindings that is never older than the objects it is made of.

pub mod aggregate;
mod escalation;
pub mod index;
pub mod keep;
pub mod rule;
pub mod stock;

use crate::auth::attributes::Attributes;
use crate::auth::follow::{self, Followed};
use crate::identity::Identity;
use crate::store::{Memory, Object};

pub use index::{Decision, Index};
pub use rule::Rule;

/// The kinds that say who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules, in one namespace.
    Role,
    /// Rules, in all of them and in none.
    ClusterRole,
    /// Who has a role in one namespace.
    RoleBinding,
    /// Who has a role everywhere.
    ClusterRoleBinding,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// Whether it holds rules, and does not give them to anybody.
    pub fn is_role(self) -> bool {
        matches!(self, Self::Role | Self::ClusterRole)
    }

    /// The name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// The kind of objects that stand under a name in paths.
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// The name in the store.
    pub fn qualified(self) -> String {
        format!("{}.{}", self.plural(), index::RBAC)
    }
}

/// Decides by the roles and bindings in a store; whoever has written a role finds it in force with the next request.
#[derive(Debug)]
pub struct Authorizer {
    followed: Followed<Index>,
}

impl Authorizer {
    /// One that follows that store.
    pub fn new(store: Memory) -> Self {
        Self { followed: Followed::new(store) }
    }

    /// Whether somebody may do something.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        self.with_index(|index| index.decide(who, attributes))
    }

    /// Asks the index as it is now.
    pub fn with_index<T>(&self, ask: impl FnOnce(&Index) -> T) -> T {
        self.followed.with_index(ask)
    }
}

impl follow::Index for Index {
    type Kind = Kind;
    const KINDS: &'static [Kind] = &Kind::ALL;

    fn resource(kind: Kind) -> String {
        kind.qualified()
    }

    fn take_in(&mut self, kind: Kind, object: &Object) {
        self.put(kind, &object.decode());
    }

    fn forget(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.remove(kind, namespace, name);
    }
}

#[cfg(test)]
mod tests;
