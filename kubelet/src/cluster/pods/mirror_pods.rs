//! Decides which mirror pods to create and which to delete. Pure.
//!
//! A mirror pod belongs to one version of its static pod, identified by a hash. If the hash differs, the mirror pod
//! is deleted and a new one is created. After a request, the watch has some time to show its effect before the
//! request is repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::nodes::references::MIRROR;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::pod_store::PodStore;
use super::server_pod::{ServerPod, is_safe};
use crate::cluster::backoff::next_retry;
use crate::desired::{Completeness, Desired, SourceKind};
use crate::observed::PodUid;

/// The annotation with the hash of the pod's manifest.
const HASH: &str = "kubernetes.io/config.hash";
/// How long the watch may take to show a change. A mirror pod that existed longer than this is created again
/// without backoff.
const WATCH_DELAY: Duration = Duration::from_secs(10);

/// Namespace and name of a pod.
type Name = (String, String);

/// A static pod: a pod from a file or URL.
#[derive(Debug)]
struct StaticPod {
    uid: PodUid,
    pod: Arc<Pod>,
    hash: String,
    /// Whether the pod's source still contains it. Otherwise the pod is terminating.
    is_wanted: bool,
    /// Earliest time of the next create request.
    due: Option<Timestamp>,
    refusals: u32,
    why: String,
    /// When the kubelet first saw the mirror pod of this pod.
    mirrored_since: Option<Timestamp>,
    /// The UID of a mirror pod with a terminal phase, although the static pod runs.
    stale_mirror: Option<PodUid>,
}

/// The static pods of this node and their mirror pods.
#[derive(Debug, Default)]
pub struct MirrorPods {
    static_pods: BTreeMap<Name, StaticPod>,
    /// Whether all sources of this node have been read. Until then, the kubelet deletes no mirror pod that lacks a
    /// static pod.
    is_complete: bool,
    /// Mirror pods that a request has deleted, until the watch shows that they are gone.
    deleted: BTreeMap<PodUid, Deletion>,
}

/// A delete request for a mirror pod.
#[derive(Debug)]
struct Deletion {
    /// Earliest time of the next delete request.
    due: Timestamp,
    refusals: u32,
}

impl StaticPod {
    /// Records that the API server has a pod of this name.
    fn observe_present(&mut self, line: &ServerPod, now: Timestamp) {
        self.due = None;
        self.why.clear();
        if line.mirror.as_ref() == Some(&self.hash) {
            self.mirrored_since.get_or_insert(now);
        } else {
            self.refusals = 0;
        }
    }

    /// Records that the API server has no pod of this name. If a client keeps deleting the mirror pod, it is
    /// created again with backoff.
    fn observe_absent(&mut self, now: Timestamp) {
        let Some(since) = self.mirrored_since.take() else { return };
        if now < after(since, WATCH_DELAY) {
            self.due = Some(next_retry(now, &mut self.refusals, 1.0));
        } else {
            self.refusals = 0;
        }
    }
}

/// The next request to send.
#[derive(Clone, Debug, PartialEq)]
pub enum MirrorAction {
    /// Create a mirror pod: the UID of the static pod, the API path and the object.
    Create(PodUid, String, Value),
    /// Delete a mirror pod: its UID, the API path and the delete options.
    Delete(PodUid, String, Value),
}

impl MirrorPods {
    /// Updates the static pods from the desired pods.
    pub fn set_desired(&mut self, desired: &Desired) {
        self.is_complete = desired.completeness == Completeness::Complete;
        for static_pod in self.static_pods.values_mut() {
            static_pod.is_wanted = false;
        }
        for wanted in desired.pods.values().filter(|pod| pod.source != SourceKind::Api) {
            let Some(name) = name(&wanted.pod) else { continue };
            let annotations = wanted.pod.metadata.annotations.as_ref();
            let hash = annotations.and_then(|all| all.get(HASH)).cloned().unwrap_or_default();
            match self.static_pods.get_mut(&name) {
                Some(static_pod) if static_pod.uid == wanted.uid && static_pod.hash == hash => {
                    static_pod.is_wanted = true
                }
                _ => {
                    let static_pod = StaticPod {
                        uid: wanted.uid.clone(),
                        pod: wanted.pod.clone(),
                        hash,
                        is_wanted: true,
                        due: None,
                        refusals: 0,
                        why: String::new(),
                        mirrored_since: None,
                        stale_mirror: None,
                    };
                    self.static_pods.insert(name, static_pod);
                }
            }
        }
    }

    /// Removes static pods that no source contains and of which nothing runs. Returns whether there were any.
    pub fn forget(&mut self, is_gone: impl Fn(&PodUid) -> bool) -> bool {
        let before = self.static_pods.len();
        self.static_pods.retain(|_, static_pod| static_pod.is_wanted || !is_gone(&static_pod.uid));
        self.static_pods.len() != before
    }

    /// The next action, or the time when one will be due.
    pub fn next(
        &mut self,
        pod_store: &PodStore,
        node: &str,
        now: Timestamp,
    ) -> Result<MirrorAction, Option<Timestamp>> {
        let (Some(lines), Some(node_uid)) =
            (pod_store.server_pods(), pod_store.server_state().node_uid.as_deref())
        else {
            return Err(None);
        };
        let there: BTreeMap<(&str, &str), &ServerPod> =
            lines.map(|line| ((&*line.name.namespace, &*line.name.name), line)).collect();
        self.deleted.retain(|uid, _| there.values().any(|line| line.uid == *uid));
        let due = |line: &ServerPod| self.deleted.get(&line.uid).map(|deleted| deleted.due);
        let is_obsolete =
            |line: &&&ServerPod| due(line).is_none_or(|due| due <= now) && !self.is_up_to_date(line);
        // The action that has waited longest comes first, so that repeated rejections do not block the others.
        let delete =
            there.values().filter(is_obsolete).map(|line| (due(line), *line)).min_by_key(|(due, _)| *due);
        let mut create: Option<(Option<Timestamp>, &str, &StaticPod)> = None;
        let mut wake = self.deleted.values().map(|deleted| deleted.due).filter(|due| *due > now).min();
        for ((namespace, name), static_pod) in &mut self.static_pods {
            if let Some(line) = there.get(&(namespace.as_str(), name.as_str())) {
                static_pod.observe_present(line, now);
            } else if static_pod.is_wanted {
                static_pod.observe_absent(now);
                match static_pod.due.filter(|due| *due > now) {
                    Some(due) => wake = Some(wake.map_or(due, |wake| wake.min(due))),
                    None if create.is_none_or(|(due, ..)| static_pod.due < due) => {
                        create = Some((static_pod.due, namespace, static_pod));
                    }
                    None => {}
                }
            }
        }
        match (delete, create) {
            (Some((_, line)), None) => Ok(delete_action(line)),
            (Some((due, line)), Some((other, ..))) if due <= other => Ok(delete_action(line)),
            (_, Some((_, namespace, static_pod))) => {
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                Ok(MirrorAction::Create(
                    static_pod.uid.clone(),
                    path,
                    new_mirror_pod(static_pod, node, node_uid),
                ))
            }
            (None, None) => Err(wake),
        }
    }

    /// Whether a pod may stay. It may if it is not a mirror pod, or if it mirrors the current version of its static
    /// pod.
    fn is_up_to_date(&self, line: &ServerPod) -> bool {
        let Some(hash) = &line.mirror else { return true };
        let static_pod = self.static_pods.get(&(line.name.namespace.clone(), line.name.name.clone()));
        static_pod.map_or(!self.is_complete, |static_pod| {
            *hash == static_pod.hash
                && !line.is_terminating
                && static_pod.stale_mirror.as_ref() != Some(&line.uid)
        })
    }

    /// Records a successful request. The watch will show its effect.
    pub fn done(&mut self, step: &MirrorAction, now: Timestamp) {
        let due_at = after(now, WATCH_DELAY);
        match step {
            MirrorAction::Create(uid, ..) => {
                if let Some(static_pod) = self.static_pod_mut(uid) {
                    static_pod.due = Some(due_at);
                }
            }
            MirrorAction::Delete(uid, ..) => {
                self.deleted.entry(uid.clone()).or_insert(Deletion { due: due_at, refusals: 0 }).due = due_at;
            }
        }
    }

    /// Records a rejected request. Returns the static pod if there is a new reason to report.
    pub fn refused(
        &mut self,
        step: &MirrorAction,
        why: &str,
        is_there: bool,
        now: Timestamp,
        share: f64,
    ) -> Option<Arc<Pod>> {
        let uid = match step {
            MirrorAction::Create(uid, ..) => uid,
            MirrorAction::Delete(uid, ..) => {
                let deleted = self.deleted.entry(uid.clone()).or_insert(Deletion { due: now, refusals: 0 });
                deleted.due = next_retry(now, &mut deleted.refusals, share);
                return None;
            }
        };
        let static_pod = self.static_pod_mut(uid)?;
        static_pod.due = Some(next_retry(now, &mut static_pod.refusals, share));
        // An existing pod may be our own, which the watch will show in a moment.
        let is_new = static_pod.why != why && (!is_there || static_pod.refusals > 1);
        if is_new {
            why.clone_into(&mut static_pod.why);
        }
        is_new.then(|| static_pod.pod.clone())
    }

    /// The mirror pod of a static pod, if it mirrors the current version.
    pub fn mirror_of<'a>(&self, pod_store: &'a PodStore, uid: &PodUid) -> Option<&'a ServerPod> {
        let (name, static_pod) = self.static_pods.iter().find(|(_, static_pod)| static_pod.uid == *uid)?;
        let mut lines = pod_store.server_pods()?;
        let is_its = |line: &&ServerPod| {
            (&line.name.namespace, &line.name.name) == (&name.0, &name.1)
                && line.mirror.as_ref() == Some(&static_pod.hash)
                && !line.is_terminating
        };
        lines.find(is_its)
    }

    /// Marks a mirror pod as stale, so that it is replaced. Its phase is terminal and cannot be reverted, but the
    /// static pod runs.
    pub fn mark_mirror_stale(&mut self, uid: &PodUid, mirror: &PodUid) {
        if let Some(static_pod) = self.static_pod_mut(uid) {
            static_pod.stale_mirror = Some(mirror.clone());
        }
    }

    /// The UID of the static pod with the given name.
    pub fn uid_of(&self, namespace: &str, name: &str) -> Option<&PodUid> {
        self.static_pods.get(&(namespace.to_owned(), name.to_owned())).map(|static_pod| &static_pod.uid)
    }

    /// The hash of a static pod, which clients use to look up its events.
    pub fn hash_of(&self, uid: &str) -> Option<&str> {
        self.static_pods
            .values()
            .find(|static_pod| static_pod.uid.as_str() == uid)
            .map(|static_pod| static_pod.hash.as_str())
    }

    fn static_pod_mut(&mut self, uid: &PodUid) -> Option<&mut StaticPod> {
        self.static_pods.values_mut().find(|static_pod| static_pod.uid == *uid)
    }
}

/// Namespace and name of a pod. `None` if they are missing or not safe in a path.
fn name(pod: &Pod) -> Option<Name> {
    let metadata = &pod.metadata;
    let name = (metadata.namespace.clone()?, metadata.name.clone()?);
    (is_safe(&name.0) && is_safe(&name.1)).then_some(name)
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// The request that deletes a mirror pod. It has no grace period, because a mirror pod has no containers of its
/// own.
fn delete_action(line: &ServerPod) -> MirrorAction {
    let path = format!("/api/v1/namespaces/{}/pods/{}", line.name.namespace, line.name.name);
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": line.uid.as_str()}});
    MirrorAction::Delete(line.uid.clone(), path, options)
}

/// Creates the mirror pod of a static pod. Its owner is the Node, and it has no finalizers.
fn new_mirror_pod(static_pod: &StaticPod, node: &str, node_uid: &str) -> Value {
    let mut pod = (*static_pod.pod).clone();
    let metadata = &mut pod.metadata;
    metadata.annotations.get_or_insert_default().insert(MIRROR.to_owned(), static_pod.hash.clone());
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: node_uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    metadata.uid = None;
    metadata.finalizers = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    pod.status = None;
    serde_json::to_value(pod).unwrap_or_default()
}

#[cfg(test)]
mod tests;
