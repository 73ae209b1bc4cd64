//! The latest policies and their peers, changed by the deltas of the reflectors. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::network_policy::{NamespaceLabels, Pod, Policy};
use client::Delta;
use serde::{Deserialize, Serialize};

use super::objects::{ApiNamespace, ApiPod, ApiPolicy};

/// The namespace and name of an object.
pub type ObjectName = (String, String);

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
    /// Whether the policies come from an API server or from the disk. Until then there are none: policies are unknown,
    /// not missing.
    pub is_known: bool,
    /// Whether the policies are not known because the API server does not let this node list them.
    pub is_forbidden: bool,
    /// The policies.
    pub policies: BTreeMap<ObjectName, Arc<Policy>>,
    /// The labels of namespaces; empty while no policy needs them.
    pub namespaces: Arc<NamespaceLabels>,
    /// The pods of all nodes; empty while no policy needs them.
    pub peers: BTreeMap<ObjectName, Arc<PeerPod>>,
}

/// What the API server has reported so far.
#[derive(Debug, Default)]
pub(super) struct Informer {
    current: PolicySnapshot,
}

impl Informer {
    /// Starts with a stored snapshot, unless the API server has answered already. Each kind counts until its first
    /// list.
    pub fn restore(&mut self, stored: &PolicySnapshot) {
        if !self.current.is_known {
            self.current = stored.clone();
        }
    }

    /// Applies a delta of policies.
    pub fn apply_policies(&mut self, delta: Delta<ApiPolicy>) {
        let policies = &mut self.current.policies;
        match delta {
            Delta::Replaced(objects, _) => {
                let all =
                    objects.into_iter().map(|one| (one.metadata.object_name(), Arc::new(one.into_policy())));
                *policies = all.collect();
                (self.current.is_known, self.current.is_forbidden) = (true, false);
            }
            Delta::Applied(one) => {
                policies.insert(one.metadata.object_name(), Arc::new(one.into_policy()));
            }
            Delta::Deleted(one) => {
                policies.remove(&one.metadata.object_name());
            }
        }
    }

    /// Applies a delta of namespaces.
    pub fn apply_namespaces(&mut self, delta: Delta<ApiNamespace>) {
        let namespaces = Arc::make_mut(&mut self.current.namespaces);
        let entry = |one: ApiNamespace| (one.metadata.name, one.metadata.labels.unwrap_or_default());
        match delta {
            Delta::Replaced(objects, _) => *namespaces = objects.into_iter().map(entry).collect(),
            Delta::Applied(one) => namespaces.extend([entry(one)]),
            Delta::Deleted(one) => drop(namespaces.remove(&one.metadata.name)),
        }
    }

    /// Applies a delta of pods.
    pub fn apply_pods(&mut self, delta: Delta<ApiPod>) {
        let peers = &mut self.current.peers;
        let named = |one: ApiPod| (one.metadata.object_name(), one.into_peer());
        match delta {
            Delta::Replaced(objects, _) => {
                let all = objects.into_iter().map(named);
                *peers = all.filter_map(|(name, peer)| Some((name, Arc::new(peer?)))).collect();
            }
            Delta::Applied(one) => {
                let (name, peer) = named(one);
                match peer {
                    // An unchanged peer keeps its place in memory.
                    Some(peer) if peers.get(&name).is_some_and(|known| **known == peer) => {}
                    Some(peer) => drop(peers.insert(name, Arc::new(peer))),
                    None => drop(peers.remove(&name)),
                }
            }
            Delta::Deleted(one) => drop(peers.remove(&one.metadata.object_name())),
        }
    }

    /// Forgets the namespaces, which are not watched any more.
    pub fn forget_namespaces(&mut self) {
        self.current.namespaces = Arc::default();
    }

    /// Forgets the pods, which are not watched any more.
    pub fn forget_pods(&mut self) {
        self.current.peers.clear();
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
