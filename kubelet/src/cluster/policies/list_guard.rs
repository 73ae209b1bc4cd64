//! Decides which known objects a list of the API server may remove. Pure.
//!
//! An API server that lost its data has an empty list, which must not end the policies of running pods. A list adds
//! objects at once. It removes those that it lacks only after its server has shown that it knows this node. If that
//! server was restored or replaced, the objects stay as *unclaimed* until the server reports objects of the same name.
//! The same rule applies to the pods of this node (`cluster::pods`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::pods::{ServerState, is_restored};
use super::snapshot::ObjectName;

/// The guards of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListGuards {
    /// The guard of NetworkPolicies.
    pub policies: ListGuard,
    /// The guard of namespaces.
    pub namespaces: ListGuard,
    /// The guard of pods.
    pub pods: ListGuard,
}

impl ListGuards {
    /// Whether a list is not confirmed yet.
    pub fn is_unconfirmed(&self) -> bool {
        [&self.policies, &self.namespaces, &self.pods].iter().any(|guard| guard.pending.is_some())
    }
}

/// The guard of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListGuard {
    /// The server of the last confirmed list.
    server: ServerState,
    /// Objects that a restored or replaced server lacks.
    unclaimed: BTreeSet<ObjectName>,
    #[serde(skip)]
    pending: Option<Pending>,
}

/// A list that is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    /// Known objects that the list lacks.
    lacking: BTreeSet<ObjectName>,
    version: Option<u64>,
}

/// The result of a confirmation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Objects that no longer exist.
    pub removed: BTreeSet<ObjectName>,
    /// Objects that a restored or replaced server unexpectedly lacks. They stay.
    pub missing: BTreeSet<ObjectName>,
}

impl ListGuard {
    /// Records a list and its `resourceVersion`.
    pub fn list<'n>(
        &mut self,
        known: impl Iterator<Item = &'n ObjectName>,
        is_listed: impl Fn(&ObjectName) -> bool,
        version: &str,
    ) {
        self.unclaimed.retain(|name| !is_listed(name));
        let lacking = known.filter(|name| !is_listed(name)).cloned().collect();
        self.pending = Some(Pending { lacking, version: version.parse().ok() });
    }

    /// Records that the server has reported a change of an object.
    pub fn report(&mut self, name: &ObjectName) {
        self.unclaimed.remove(name);
        if let Some(pending) = &mut self.pending {
            pending.lacking.remove(name);
        }
    }

    /// Confirms the last list: its server knows this node under `node_uid`.
    pub fn confirm(&mut self, node_uid: &str) -> Confirmed {
        let Some(Pending { mut lacking, version }) = self.pending.take() else { return Confirmed::default() };
        let is_known = self.server.node_uid.as_deref().is_none_or(|known| known == node_uid);
        let is_same = is_known && !is_restored(self.server.version, version);
        self.server = ServerState { node_uid: Some(node_uid.to_owned()), version };
        lacking.retain(|name| !self.unclaimed.contains(name));
        if is_same {
            return Confirmed { removed: lacking, missing: BTreeSet::new() };
        }
        self.unclaimed.extend(lacking.iter().cloned());
        Confirmed { removed: BTreeSet::new(), missing: lacking }
    }

    /// The objects that are known although the last list lacks them.
    pub fn kept(&self) -> BTreeSet<ObjectName> {
        let lacking = self.pending.iter().flat_map(|pending| &pending.lacking);
        lacking.chain(&self.unclaimed).cloned().collect()
    }

    /// Forgets the objects, which are not watched any more.
    pub fn forget(&mut self) {
        self.unclaimed.clear();
        self.pending = None;
    }
}
