//! The latest policies and their peers, changed by the deltas of the reflectors. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use api::network_policy::{NamespaceLabels, Pod, Policy};
use client::Delta;
use serde::{Deserialize, Serialize};

use super::list_guard::ListGuards;
use super::objects::{ApiNamespace, ApiPod, ApiPolicy};
use crate::cluster::stored::Snapshot;

/// The namespace and name of an object.
pub type ObjectName = (String, String);

/// Pods by their names.
type Peers = BTreeMap<ObjectName, Arc<PeerPod>>;

/// A pod of the cluster with an address of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPod {
    /// The name of its node.
    pub node: String,
    /// The pod.
    pub pod: Pod,
}

/// All policies and their peers at one moment. A clone shares all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySnapshot {
    /// Whether the policies come from an API server or from the disk. If not, `policies` is empty because they are
    /// not known yet.
    pub is_known: bool,
    /// Whether the policies are not known because the API server does not let this node list them.
    pub is_forbidden: bool,
    /// The policies.
    pub policies: BTreeMap<ObjectName, Arc<Policy>>,
    /// The labels of namespaces; empty while no policy needs them.
    pub namespaces: Arc<NamespaceLabels>,
    /// The pods of all nodes; empty while no policy needs them.
    pub peers: Peers,
    /// Which of these objects the next list may remove.
    pub guards: ListGuards,
}

impl Snapshot for PolicySnapshot {
    fn is_known(&self) -> bool {
        self.is_known
    }
}

/// What the API server has reported so far.
#[derive(Debug, Default)]
pub(super) struct Informer {
    current: PolicySnapshot,
    lists_received: u64,
}

impl Informer {
    /// Starts with a stored snapshot, unless the API server has answered already. Its objects stay until a
    /// confirmed list lacks them.
    pub fn restore(&mut self, stored: &PolicySnapshot) {
        if !self.current.is_known {
            self.current = stored.clone();
        }
    }

    /// The number of lists of all kinds that were received.
    pub fn lists_received(&self) -> u64 {
        self.lists_received
    }

    /// Whether a list is not confirmed yet.
    pub fn is_unconfirmed(&self) -> bool {
        self.current.guards.is_unconfirmed()
    }

    /// Confirms the last lists: their server knows this node under `node_uid`. Removes the objects that they lack, unless
    /// the server was restored or replaced. Returns the policies that such a server lacks.
    pub fn confirm(&mut self, node_uid: &str) -> BTreeSet<ObjectName> {
        let PolicySnapshot { policies, namespaces, peers, guards, .. } = &mut self.current;
        let of_policies = guards.policies.confirm(node_uid);
        policies.retain(|name, _| !of_policies.removed.contains(name));
        for (_, name) in guards.namespaces.confirm(node_uid).removed {
            Arc::make_mut(namespaces).remove(&name);
        }
        for name in guards.pods.confirm(node_uid).removed {
            peers.remove(&name);
        }
        of_policies.missing
    }

    /// Applies a delta of policies.
    pub fn apply_policies(&mut self, delta: Delta<ApiPolicy>) {
        let PolicySnapshot { policies, guards: ListGuards { policies: guard, .. }, .. } = &mut self.current;
        match delta {
            Delta::Replaced(objects, version) => {
                let all =
                    objects.into_iter().map(|one| (one.metadata.object_name(), Arc::new(one.into_policy())));
                let listed: BTreeMap<_, _> = all.collect();
                guard.list(policies.keys(), |name| listed.contains_key(name), &version);
                policies.extend(listed);
                (self.current.is_known, self.current.is_forbidden) = (true, false);
                self.lists_received += 1;
            }
            Delta::Applied(one) => {
                let name = one.metadata.object_name();
                guard.report(&name);
                policies.insert(name, Arc::new(one.into_policy()));
            }
            Delta::Deleted(one) => {
                let name = one.metadata.object_name();
                guard.report(&name);
                policies.remove(&name);
            }
        }
    }

    /// Applies a delta of namespaces.
    pub fn apply_namespaces(&mut self, delta: Delta<ApiNamespace>) {
        let PolicySnapshot { namespaces, guards: ListGuards { namespaces: guard, .. }, .. } =
            &mut self.current;
        let namespaces = Arc::make_mut(namespaces);
        let entry = |one: ApiNamespace| (one.metadata.name, one.metadata.labels.unwrap_or_default());
        match delta {
            Delta::Replaced(objects, version) => {
                let listed: NamespaceLabels = objects.into_iter().map(entry).collect();
                let known: Vec<ObjectName> =
                    namespaces.keys().map(|name| (String::new(), name.clone())).collect();
                guard.list(known.iter(), |(_, name)| listed.contains_key(name), &version);
                namespaces.extend(listed);
                self.lists_received += 1;
            }
            Delta::Applied(one) => {
                guard.report(&one.metadata.object_name());
                namespaces.extend([entry(one)]);
            }
            Delta::Deleted(one) => {
                guard.report(&one.metadata.object_name());
                namespaces.remove(&one.metadata.name);
            }
        }
    }

    /// Applies a delta of pods.
    pub fn apply_pods(&mut self, delta: Delta<ApiPod>) {
        let PolicySnapshot { peers, guards: ListGuards { pods: guard, .. }, .. } = &mut self.current;
        let mut taken = HashSet::new();
        let mut put = |peers: &mut Peers, name: ObjectName, peer: Option<PeerPod>| {
            taken.extend(peer.iter().flat_map(|peer| peer.pod.addresses.iter().copied()));
            match peer {
                // An unchanged peer keeps its place in memory.
                Some(peer) if peers.get(&name).is_some_and(|known| **known == peer) => {}
                Some(peer) => drop(peers.insert(name, Arc::new(peer))),
                None => drop(peers.remove(&name)),
            }
        };
        match delta {
            Delta::Replaced(objects, version) => {
                let named = |one: ApiPod| (one.metadata.object_name(), one.into_peer());
                let listed: BTreeMap<_, _> = objects.into_iter().map(named).collect();
                guard.list(peers.keys(), |name| listed.contains_key(name), &version);
                listed.into_iter().for_each(|(name, peer)| put(peers, name, peer));
                self.lists_received += 1;
            }
            Delta::Applied(one) => {
                let name = one.metadata.object_name();
                guard.report(&name);
                put(peers, name, one.into_peer());
            }
            Delta::Deleted(one) => {
                let name = one.metadata.object_name();
                guard.report(&name);
                peers.remove(&name);
            }
        }
        // The address of a pod that the server lacks belongs to another pod now.
        for name in guard.kept() {
            let has_lost = |peer: &Arc<PeerPod>| peer.pod.addresses.iter().any(|ip| taken.contains(ip));
            if peers.get(&name).is_some_and(has_lost) {
                peers.remove(&name);
                guard.report(&name);
            }
        }
    }

    /// Forgets the namespaces, which are not watched any more.
    pub fn forget_namespaces(&mut self) {
        self.current.namespaces = Arc::default();
        self.current.guards.namespaces.forget();
    }

    /// Forgets the pods, which are not watched any more.
    pub fn forget_pods(&mut self) {
        self.current.peers.clear();
        self.current.guards.pods.forget();
    }

    /// Records that the API server does not let this node list policies.
    pub fn forbid(&mut self) {
        self.current.is_forbidden = true;
    }

    /// The snapshot to publish.
    pub fn snapshot(&self) -> PolicySnapshot {
        self.current.clone()
    }
}
