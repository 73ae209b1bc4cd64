//! Cache of the PersistentVolumeClaims that pods use: which are bound, and when each is read again. Pure.
//!
//! A node may only read single claims and volumes. It reads a claim until it is bound to a volume that a pod can use.
//! A bound claim stays bound while a pod uses it, so it is not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::references::{ClaimKey, ClaimState, PodClaim};
use client::backoff::{NO_JITTER, exponential_delay};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::reference_cache::Missing;
use super::server_pod::is_safe;
use crate::desired::{SourceObject, selects_node};
use crate::identity::ApiError;
use crate::observed::PodUid;

/// First and longest pause between two reads of a claim that is not bound.
const INITIAL_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// A claim that a pod uses.
#[derive(Debug)]
struct Entry {
    namespace: String,
    held: Option<SourceObject>,
    is_bound: bool,
    /// Number of reads that did not find the claim bound.
    reads: u32,
    /// When the claim is read again. `None` for at once.
    due: Option<Timestamp>,
    /// The last error, while the claim has not been read.
    error: Option<ApiError>,
}

/// A claim to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimCall {
    pub key: ClaimKey,
    pub namespace: String,
}

/// All claims that pods use.
#[derive(Debug, Default)]
pub struct ClaimCache {
    all: BTreeMap<ClaimKey, Entry>,
    /// Bound claims of the checkpoint whose pods are not known yet.
    restored: BTreeMap<ClaimKey, Arc<PodClaim>>,
}

impl ClaimCache {
    /// Restores a claim from the checkpoint. A claim that was not bound is read again.
    pub fn restore(&mut self, claim: Arc<PodClaim>) {
        if matches!(claim.state, ClaimState::Bound(_)) {
            self.restored.insert(claim.key.clone(), claim);
        }
    }

    /// Sets the pods of this node, and drops the claims of other pods. Returns whether a new claim must be read.
    pub fn set_pods<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> bool {
        let (mut wanted, mut has_new) = (BTreeSet::new(), false);
        for pod in pods {
            for call in calls(pod) {
                wanted.insert(call.key.clone());
                if self.all.contains_key(&call.key) {
                    continue;
                }
                let restored = self.restored.remove(&call.key);
                has_new |= restored.is_none();
                let entry = Entry {
                    namespace: call.namespace,
                    is_bound: restored.is_some(),
                    held: restored.map(SourceObject::Claim),
                    reads: 0,
                    due: None,
                    error: None,
                };
                self.all.insert(call.key, entry);
            }
        }
        self.restored.clear();
        self.all.retain(|key, _| wanted.contains(key));
        has_new
    }

    /// The next claim to read, or the time when one will be due.
    pub fn next(&self, now: Timestamp) -> Result<ClaimCall, Option<Timestamp>> {
        let open = || self.all.iter().filter(|(_, entry)| !entry.is_bound);
        let is_due = |entry: &Entry| entry.due.is_none_or(|due| due <= now);
        match open().filter(|(_, entry)| is_due(entry)).min_by_key(|(_, entry)| entry.due) {
            Some((key, entry)) => Ok(ClaimCall { key: key.clone(), namespace: entry.namespace.clone() }),
            None => Err(open().filter_map(|(_, entry)| entry.due).min()),
        }
    }

    /// Stores what was read. Returns whether it differs from before.
    pub fn on_read(&mut self, key: &ClaimKey, state: ClaimState, now: Timestamp) -> bool {
        let Some(entry) = self.all.get_mut(key) else { return false };
        entry.is_bound = matches!(state, ClaimState::Bound(_));
        let pause = exponential_delay(INITIAL_PAUSE, MAX_PAUSE, entry.reads, NO_JITTER);
        entry.reads = entry.reads.saturating_add(1);
        entry.due = Some(now.checked_add(pause).unwrap_or(Timestamp::MAX));
        entry.error = None;
        if matches!(&entry.held, Some(SourceObject::Claim(held)) if held.state == state) {
            return false;
        }
        let metadata = ObjectMeta {
            namespace: Some(entry.namespace.clone()),
            name: Some(key.claim.clone()),
            ..ObjectMeta::default()
        };
        entry.held = Some(SourceObject::Claim(Arc::new(PodClaim { metadata, key: key.clone(), state })));
        true
    }

    /// Records that the API server could not be reached.
    pub fn on_error(&mut self, key: &ClaimKey, error: &ApiError) {
        if let Some(entry) = self.all.get_mut(key) {
            entry.error = Some(error.clone());
        }
    }

    /// The claims of a pod that have not been read.
    pub fn missing(&self, uid: &PodUid) -> impl Iterator<Item = Missing> {
        let own = self.all.iter().filter(|(key, entry)| key.pod_uid == uid.as_str() && entry.held.is_none());
        own.map(|(key, entry)| Missing::Claim(key.claim.clone(), entry.error.clone()))
    }

    /// All claims that have been read.
    pub fn held(&self) -> impl Iterator<Item = &SourceObject> {
        self.all.values().filter_map(|entry| entry.held.as_ref())
    }
}

/// The claims that a pod uses.
fn calls(pod: &Pod) -> impl Iterator<Item = ClaimCall> {
    let metadata = &pod.metadata;
    let (uid, namespace) = (metadata.uid.as_deref(), metadata.namespace.as_deref());
    let (uid, namespace) = (uid.unwrap_or_default(), namespace.unwrap_or_default());
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.filter(|source| is_safe(&source.claim_name)).map(move |source| ClaimCall {
        key: ClaimKey { pod_uid: uid.to_owned(), claim: source.claim_name.clone() },
        namespace: namespace.to_owned(),
    })
}

/// The name of the volume of a claim.
///
/// # Errors
/// If a pod cannot use the claim yet. The error is the text of an event.
pub fn volume_of(claim: &PersistentVolumeClaim) -> Result<&str, String> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    match phase {
        "Bound" if is_safe(volume) => Ok(volume),
        "Lost" => Err(format!("persistentvolumeclaim \"{name}\" has lost its persistentvolume \"{volume}\"")),
        _ => Err(format!("persistentvolumeclaim \"{name}\" is not bound to a persistentvolume yet")),
    }
}

/// The state of a claim that names this volume.
pub fn state(claim: &PersistentVolumeClaim, mut volume: PersistentVolume) -> ClaimState {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let uid = reference.and_then(|reference| reference.uid.as_ref());
    if uid.is_none() || uid != claim.metadata.uid.as_ref() {
        let [claim, volume] = [&claim.metadata, &volume.metadata].map(|metadata| metadata.name.clone());
        return ClaimState::Waiting(format!(
            "the persistentvolume {:?} is not bound to the persistentvolumeclaim {:?}",
            volume.unwrap_or_default(),
            claim.unwrap_or_default()
        ));
    }
    (volume.metadata.managed_fields, volume.status) = (None, None);
    ClaimState::Bound(Box::new(volume))
}

/// The state of a claim that is bound to this volume. A pod with `nodeName` may be on a node that the volume excludes,
/// where the same path holds other data.
pub fn check_node(volume: Box<PersistentVolume>, node: &Node) -> ClaimState {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if required.is_none_or(|required| selects_node(required, &labels, name)) {
        return ClaimState::Bound(volume);
    }
    let volume = volume.metadata.name.unwrap_or_default();
    ClaimState::Waiting(format!("the node affinity of the persistentvolume \"{volume}\" excludes this node"))
}

#[cfg(test)]
mod tests {
    //! Tests of claims that are read until they are bound.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str) -> Arc<Pod> {
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
        let spec = json!({"containers": [], "volumes": [claim]});
        let metadata = json!({"name": "p", "namespace": "shop", "uid": uid});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn claim(phase: &str, volume: Value) -> PersistentVolumeClaim {
        let (metadata, spec) = (json!({"name": "data", "uid": "c-1"}), json!({"volumeName": volume}));
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))
            .unwrap()
    }

    fn volume(claim: &str) -> PersistentVolume {
        let spec = json!({"hostPath": {"path": "/data"}, "claimRef": {"name": "data", "uid": claim}});
        serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap()
    }

    #[test]
    fn claim_is_fetched_until_it_is_bound() {
        let (mut cache, now) = (ClaimCache::default(), Timestamp::UNIX_EPOCH);
        assert!(cache.set_pods([pod("u-1")].iter()));
        assert!(!cache.set_pods([pod("u-1")].iter()));
        let call = cache.next(now).unwrap();
        assert_eq!((call.key.claim.as_str(), call.namespace.as_str()), ("data", "shop"));
        assert_eq!(cache.missing(&PodUid::new("u-1")).count(), 1);
        assert!(cache.on_read(&call.key, ClaimState::Waiting("not bound".to_owned()), now));
        assert_eq!((cache.missing(&PodUid::new("u-1")).count(), cache.held().count()), (0, 1));
        let due = cache.next(now).unwrap_err().unwrap();
        assert_eq!(cache.next(due).unwrap(), call);
        assert!(!cache.on_read(&call.key, ClaimState::Waiting("not bound".to_owned()), due));
        assert!(cache.on_read(&call.key, state(&claim("Bound", json!("pv")), volume("c-1")), due));
        assert_eq!(cache.next(Timestamp::MAX), Err(None));

        // Another pod with the same claim reads it again.
        let held = cache.held().next().cloned().unwrap();
        assert!(cache.set_pods([pod("u-2")].iter()));
        assert_eq!(cache.next(now).unwrap().key.pod_uid, "u-2");
        // A restart does not read a bound claim again.
        let SourceObject::Claim(held) = held else { panic!("a claim") };
        let mut restarted = ClaimCache::default();
        restarted.restore(held);
        assert!(!restarted.set_pods([pod("u-1")].iter()));
        assert_eq!((restarted.next(now), restarted.held().count()), (Err(None), 1));
    }

    #[test]
    fn only_a_bound_claim_with_its_own_volume_can_be_used() {
        assert_eq!(volume_of(&claim("Bound", json!("pv"))), Ok("pv"));
        for (phase, volume, expected) in [
            ("Pending", json!(null), "is not bound to a persistentvolume yet"),
            ("Pending", json!("pv"), "is not bound to a persistentvolume yet"),
            ("Bound", json!("../pv"), "is not bound to a persistentvolume yet"),
            ("Lost", json!("pv"), "has lost its persistentvolume \"pv\""),
        ] {
            let why = volume_of(&claim(phase, volume)).unwrap_err();
            assert_eq!(why, format!("persistentvolumeclaim \"data\" {expected}"));
        }
        let mut terminating = claim("Bound", json!("pv"));
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        terminating.metadata.deletion_timestamp = Some(time);
        assert!(volume_of(&terminating).unwrap_err().ends_with("is being deleted"));
        let other = state(&claim("Bound", json!("pv")), volume("c-2"));
        assert!(matches!(other, ClaimState::Waiting(why) if why.contains("is not bound to the")));
    }

    #[test]
    fn a_volume_of_other_nodes_cannot_be_used() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n1", "labels": {"disk": "a"}}})).unwrap();
        for (values, is_bound) in [(json!(["a", "b"]), true), (json!(["b"]), false)] {
            let mut volume = volume("c-1");
            let requirement = json!({"key": "disk", "operator": "In", "values": values});
            let terms = json!([{"matchExpressions": [requirement]}]);
            let affinity = json!({"required": {"nodeSelectorTerms": terms}});
            volume.spec.as_mut().unwrap().node_affinity = Some(serde_json::from_value(affinity).unwrap());
            let state = check_node(Box::new(volume), &node);
            assert_eq!(matches!(state, ClaimState::Bound(_)), is_bound, "{state:?}");
        }
    }
}
