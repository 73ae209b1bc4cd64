//! Roles decide: an index of roles and bindings that is never older than the objects it is made of.

pub mod aggregate;
mod escalation;
pub mod index;
pub mod keep;
pub mod rule;
pub mod stock;

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::auth::attributes::Attributes;
use crate::identity::Identity;
use crate::store::{ChangeKind, Memory, Scope, TooOld, Watcher};

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

/// Decides by the roles and bindings in a store.
///
/// Nothing runs in between: before it decides it takes in what has changed, which is nothing nearly always. So whoever has
/// written a role finds it in force with the next request.
#[derive(Debug)]
pub struct Authorizer {
    followed: RwLock<Followed>,
}

#[derive(Debug)]
struct Followed {
    store: Memory,
    index: Index,
    watchers: Vec<(Kind, Watcher)>,
}

impl Authorizer {
    /// One that follows that store.
    pub fn new(store: Memory) -> Self {
        Self { followed: RwLock::new(Followed::new(store)) }
    }

    /// Whether somebody may do something.
    pub fn decide(&self, who: &Identity, attributes: &Attributes) -> Decision {
        self.with_index(|index| index.decide(who, attributes))
    }

    /// Asks the index as it is now.
    pub fn with_index<T>(&self, ask: impl FnOnce(&Index) -> T) -> T {
        ask(&self.fresh().index)
    }

    fn fresh(&self) -> RwLockReadGuard<'_, Followed> {
        let followed = self.followed.read().unwrap_or_else(PoisonError::into_inner);
        if !followed.is_behind() {
            return followed;
        }
        drop(followed);
        self.followed.write().unwrap_or_else(PoisonError::into_inner).catch_up();
        self.followed.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Followed {
    fn new(store: Memory) -> Self {
        let mut followed = Self { store, index: Index::default(), watchers: Vec::new() };
        followed.catch_up();
        followed
    }

    fn is_behind(&self) -> bool {
        self.watchers.is_empty() || self.watchers.iter().any(|(_, watcher)| watcher.has_news())
    }

    fn catch_up(&mut self) {
        if self.watchers.is_empty() || self.take_in().is_err() {
            self.read_all();
        }
    }

    fn take_in(&mut self) -> Result<(), TooOld> {
        for (kind, watcher) in &mut self.watchers {
            loop {
                let changes = watcher.ready()?;
                if changes.is_empty() {
                    break;
                }
                for change in changes {
                    let object = &change.object;
                    match change.kind {
                        ChangeKind::Put => self.index.put(*kind, &object.decode()),
                        ChangeKind::Deleted => self.index.remove(*kind, object.namespace(), object.name()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Lists everything; where the store cannot be watched from there on, it is listed again for the next decision.
    fn read_all(&mut self) {
        self.index = Index::default();
        let mut watchers = Vec::new();
        for kind in Kind::ALL {
            let resource = kind.qualified();
            let listing = self.store.list(&resource, &Scope::All);
            let watcher = self.store.watch(&resource, Scope::All, listing.revision);
            watchers.extend(watcher.map(|watcher| (kind, watcher)));
            for object in listing.objects {
                self.index.put(kind, &object.decode());
            }
        }
        self.watchers = if watchers.len() == Kind::ALL.len() { watchers } else { Vec::new() };
    }
}

#[cfg(test)]
mod tests;
