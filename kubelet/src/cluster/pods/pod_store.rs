//! Pod store: which pods of the API server run here, and whether its lists can be trusted. Pure.
//!
//! A list counts once its server has shown that it knows this node. A list is from a restored or replaced API server if
//! it is older than the last known version or far ahead of it, or if the Node has another UID. Such a list starts pods
//! but ends none. Pods that it lacks continue as *unclaimed* until a user decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::{ObjectName, Problem};
use apiserver::auth::nodes::Object;
use client::Delta;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reference_cache::{Missing, ReferenceCache};
use super::server_pod::{self, ServerPod};
use crate::desired::{Completeness, Found, FoundProblem, Snapshot, SourceKind, SourceObject};
use crate::observed::PodUid;

/// The origin of these pods in messages.
const ORIGIN: &str = "the API server";

/// The state of the API server that was last confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerState {
    /// The UID of this node's Node on that server.
    pub node_uid: Option<String>,
    /// The newest `resourceVersion` that was seen there.
    pub version: Option<u64>,
}

/// An assigned pod as it is checkpointed for the next kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistedPod {
    pub pod: Arc<Pod>,
    /// Whether a restored or replaced API server lacks the pod. Only a user ends such a pod.
    pub is_unclaimed: bool,
    /// Whether the pod was published in a snapshot, after its referenced objects were looked up.
    pub is_published: bool,
}

/// A pod that the API server assigned to this node.
#[derive(Clone, Debug)]
pub struct AssignedPod {
    /// The part that is checkpointed.
    pub persisted: PersistedPod,
    /// The ConfigMaps and Secrets that the pod references.
    references: BTreeSet<Object>,
}

/// The last list of a server, with the later changes.
#[derive(Debug)]
struct Listing {
    pods: BTreeMap<PodUid, ServerPod>,
    version: Option<u64>,
    is_confirmed: bool,
}

impl Listing {
    /// Whether the list contains another pod with the namespace and name of `pod`.
    fn has_namesake(&self, pod: &Pod) -> bool {
        let (namespace, name) = (pod.metadata.namespace.as_ref(), pod.metadata.name.as_ref());
        let is_one =
            |line: &ServerPod| Some(&line.name.namespace) == namespace && Some(&line.name.name) == name;
        self.pods.values().any(is_one)
    }
}

/// All pods that the API server assigned to this node.
#[derive(Debug)]
pub struct PodStore {
    node: String,
    assigned: BTreeMap<PodUid, AssignedPod>,
    listing: Option<Listing>,
    server_state: ServerState,
    /// Number of lists that were received.
    lists_received: u64,
    /// Number of lists that were confirmed.
    lists_confirmed: u64,
}

impl PodStore {
    /// Creates an empty store for the node of this name.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            assigned: BTreeMap::new(),
            listing: None,
            server_state: ServerState::default(),
            lists_received: 0,
            lists_confirmed: 0,
        }
    }

    /// Restores the pods and the server state from the checkpoint.
    pub fn restore(&mut self, pods: Vec<PersistedPod>, server_state: ServerState) {
        self.server_state = server_state;
        for persisted in pods {
            let references =
                server_pod::references(&serde_json::to_value(&*persisted.pod).unwrap_or_default());
            let uid = PodUid::new(persisted.pod.metadata.uid.as_deref().unwrap_or_default());
            self.assigned.insert(uid, AssignedPod { persisted, references });
        }
    }

    /// Applies a delta of the reflector. Returns false if the pods must be listed again first.
    pub fn apply(&mut self, delta: Delta<Value>) -> bool {
        if let (Some(listing), Delta::Applied(value) | Delta::Deleted(value)) = (&self.listing, &delta)
            && server_pod::is_restored(listing.version, listing.version.max(server_pod::version(value)))
        {
            return false;
        }
        match delta {
            Delta::Replaced(values, version) => {
                self.lists_received += 1;
                let lines = values.into_iter().filter_map(|value| ServerPod::read(value, &self.node));
                let pods = lines.map(|line| (line.uid.clone(), line)).collect();
                self.listing = Some(Listing { pods, version: version.parse().ok(), is_confirmed: false });
            }
            Delta::Applied(value) => {
                if let (Some(listing), Some(line)) = (&mut self.listing, ServerPod::read(value, &self.node)) {
                    listing.version = listing.version.max(line.version);
                    listing.pods.insert(line.uid.clone(), line);
                }
            }
            Delta::Deleted(value) => {
                if let (Some(listing), Some(line)) = (&mut self.listing, ServerPod::read(value, &self.node)) {
                    listing.version = listing.version.max(line.version);
                    listing.pods.remove(&line.uid);
                    // A server that knew this pod reported its deletion.
                    if listing.is_confirmed {
                        self.assigned.remove(&line.uid);
                    }
                }
            }
        }
        self.merge_confirmed();
        true
    }

    /// Whether the current list is not yet confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        self.listing.as_ref().is_some_and(|listing| !listing.is_confirmed)
    }

    /// Confirms the current list: its server knows this node under `node_uid`. Returns the pods that the list
    /// unexpectedly lacks.
    pub fn confirm(&mut self, node_uid: &str) -> Vec<ObjectName> {
        let Some(listing) = self.listing.as_mut().filter(|listing| !listing.is_confirmed) else {
            return Vec::new();
        };
        listing.is_confirmed = true;
        self.lists_confirmed += 1;
        let is_known = self.server_state.node_uid.as_deref().is_none_or(|known| known == node_uid);
        let mut missing = Vec::new();
        if !is_known || server_pod::is_restored(self.server_state.version, listing.version) {
            for (uid, AssignedPod { persisted, .. }) in &mut self.assigned {
                let is_listed = listing.pods.contains_key(uid) || listing.has_namesake(&persisted.pod);
                if !persisted.is_unclaimed && !is_listed {
                    persisted.is_unclaimed = true;
                    // A terminating pod ends anyway within its grace period, and is not reported as missing.
                    if !is_terminating(&persisted.pod) {
                        missing.push(SourceObject::Pod(persisted.pod.clone()).object_name());
                    }
                }
            }
        }
        if !is_known {
            // Versions of two clusters cannot be compared.
            self.server_state.version = None;
        }
        self.server_state.node_uid = Some(node_uid.to_owned());
        self.merge_confirmed();
        missing
    }

    /// Updates the assigned pods from the confirmed list.
    fn merge_confirmed(&mut self) {
        let Some(listing) = self.listing.as_ref().filter(|listing| listing.is_confirmed) else { return };
        self.server_state.version = self.server_state.version.max(listing.version);
        self.assigned.retain(|uid, AssignedPod { persisted, .. }| {
            listing.pods.contains_key(uid) || persisted.is_unclaimed && !listing.has_namesake(&persisted.pod)
        });
        for (uid, line) in listing.pods.iter().filter(|(_, line)| line.is_runnable) {
            let Ok(pod) = &line.pod else { continue };
            match self.assigned.get_mut(uid) {
                Some(assigned) => {
                    assigned.persisted.is_unclaimed = false;
                    if assigned.persisted.pod != *pod {
                        assigned.persisted.pod = pod.clone();
                        assigned.references.clone_from(&line.references);
                    }
                }
                // A pod that reached a terminal phase before this node knew of it is not started.
                None if line.is_terminal() => {}
                None => {
                    let persisted =
                        PersistedPod { pod: pod.clone(), is_unclaimed: false, is_published: false };
                    self.assigned
                        .insert(uid.clone(), AssignedPod { persisted, references: line.references.clone() });
                }
            }
        }
    }

    /// Removes a pod that is terminal according to the API server, so that the node no longer runs it.
    pub fn forget(&mut self, uid: &PodUid) -> bool {
        self.assigned.remove(uid).is_some()
    }

    /// Removes an unclaimed pod that was terminating, once nothing of it is left.
    pub fn remove_if_ended(&mut self, uid: &PodUid) -> bool {
        let is_done = |AssignedPod { persisted, .. }: &AssignedPod| {
            persisted.is_unclaimed && is_terminating(&persisted.pod)
        };
        self.assigned.get(uid).is_some_and(is_done) && self.forget(uid)
    }

    /// Every pod that is assigned to this node.
    pub fn assigned(&self) -> impl Iterator<Item = (&PodUid, &AssignedPod)> {
        self.assigned.iter()
    }

    /// The API server state that was confirmed last.
    pub fn server_state(&self) -> &ServerState {
        &self.server_state
    }

    /// Whether an unclaimed pod still runs.
    pub fn has_unclaimed(&self) -> bool {
        self.assigned
            .values()
            .any(|AssignedPod { persisted, .. }| persisted.is_unclaimed && !is_terminating(&persisted.pod))
    }

    /// Returns a pod of the confirmed list.
    pub fn server_pod(&self, uid: &PodUid) -> Option<&ServerPod> {
        self.confirmed_listing()?.pods.get(uid)
    }

    /// All pods of the current list, if it is confirmed.
    pub fn server_pods(&self) -> Option<impl Iterator<Item = &ServerPod>> {
        Some(self.confirmed_listing()?.pods.values())
    }

    fn confirmed_listing(&self) -> Option<&Listing> {
        self.listing.as_ref().filter(|listing| listing.is_confirmed)
    }

    /// Applies the pod that the API server returned to a status patch.
    pub fn apply_status_response(&mut self, value: Value) {
        let Some(line) = ServerPod::read(value, &self.node) else { return };
        let there = self.listing.as_mut().and_then(|listing| listing.pods.get_mut(&line.uid));
        // The watch may have delivered a newer version meanwhile.
        if let Some(there) = there.filter(|there| there.version <= line.version) {
            *there = line;
            self.merge_confirmed();
        }
    }

    /// The UIDs of all pods of the confirmed list.
    pub fn server_uids(&self) -> impl Iterator<Item = &PodUid> {
        self.confirmed_listing().into_iter().flat_map(|listing| listing.pods.keys())
    }

    /// The number of lists that were received.
    pub fn lists_received(&self) -> u64 {
        self.lists_received
    }

    /// The number of lists that were confirmed.
    pub fn lists_confirmed(&self) -> u64 {
        self.lists_confirmed
    }

    /// The ConfigMaps and Secrets that the assigned pods reference.
    pub fn references(&self) -> BTreeSet<Object> {
        self.assigned.values().flat_map(|assigned| assigned.references.iter().cloned()).collect()
    }

    /// The assigned pods without a terminal phase on the API server.
    pub fn active_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let is_terminal = |uid: &PodUid| self.server_pod(uid).is_some_and(ServerPod::is_terminal);
        self.assigned
            .iter()
            .filter(move |(uid, _)| !is_terminal(uid))
            .map(|(_, assigned)| &assigned.persisted.pod)
    }

    /// The ConfigMaps and Secrets that unclaimed pods reference.
    pub fn unclaimed_references(&self) -> BTreeSet<Object> {
        let unclaimed = self.assigned.values().filter(|assigned| assigned.persisted.is_unclaimed);
        unclaimed.flat_map(|assigned| assigned.references.iter().cloned()).collect()
    }

    /// The desired pods of the API server, the oldest first, with the objects that they reference. A new pod waits
    /// until its references were looked up.
    pub fn snapshot(&mut self, reference_cache: &ReferenceCache) -> Snapshot {
        let origin: Arc<str> = Arc::from(ORIGIN);
        let found = |object: SourceObject| Found {
            name: Arc::new(object.object_name()),
            object,
            origin: origin.clone(),
        };
        let (mut pods, mut waiting) = (Vec::new(), BTreeSet::new());
        for (uid, AssignedPod { persisted, references }) in &mut self.assigned {
            persisted.is_published |=
                is_terminating(&persisted.pod) || reference_cache.missing(uid, references).is_empty();
            if persisted.is_published {
                pods.push(persisted.pod.clone());
            } else {
                waiting.insert(uid.clone());
            }
        }
        let age = |pod: &Arc<Pod>| (pod.metadata.creation_timestamp.clone(), pod.metadata.uid.clone());
        pods.sort_by_cached_key(age);
        let pods = pods.into_iter().map(SourceObject::Pod);
        Snapshot {
            source: SourceKind::Api,
            objects: pods.chain(reference_cache.held().cloned()).map(found).collect(),
            waiting,
            problems: self.problems(&origin),
            skipped: Vec::new(),
            completeness: if self.lists_confirmed > 0 {
                Completeness::Complete
            } else {
                Completeness::Incomplete
            },
        }
    }

    /// Returns a pod that waits for referenced objects, and what is missing.
    pub fn waiting_pod(
        &self,
        uid: &PodUid,
        reference_cache: &ReferenceCache,
    ) -> Option<(&Arc<Pod>, Vec<Missing>)> {
        let assigned = self.assigned.get(uid).filter(|assigned| !assigned.persisted.is_published)?;
        Some((&assigned.persisted.pod, reference_cache.missing(uid, &assigned.references)))
    }

    fn problems(&self, origin: &Arc<str>) -> Vec<FoundProblem> {
        let lines = self.listing.iter().flat_map(|listing| listing.pods.values());
        let wrong = lines.filter_map(|line| Some((line, line.pod.as_ref().err()?)));
        let problem = |(line, why): (&ServerPod, &String)| FoundProblem {
            origin: origin.clone(),
            problem: Problem {
                line: 0,
                column: 0,
                path: String::new(),
                what: format!("{} is invalid: {why}", line.name),
                remedy: "change it to a form that this API version accepts".to_owned(),
                object: Some(line.name.clone()),
            },
            last_good: self.assigned.contains_key(&line.uid),
        };
        wrong.map(problem).collect()
    }
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
