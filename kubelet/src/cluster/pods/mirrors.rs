//! The images that the API has of the pods that this node has from elsewhere: which there are to be, and which are to go. Pure.
//!
//! An image is one of a version of its pod: that of another goes, and a new one is made. What was just asked for is given time to be
//! heard of before it is asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::nodes::names::MIRROR;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::book::Book;
use super::line::{Line, is_safe};
use crate::cluster::patience::again;
use crate::desired::{Completeness, Desired, SourceKind};
use crate::observed::PodUid;

/// The annotation with the hash of a pod as its source holds it.
const HASH: &str = "kubernetes.io/config.hash";
/// How long what was done may take to be heard of, and an image has to live for the next to be made without a pause.
const HEARD_WITHIN: Duration = Duration::from_secs(10);

/// Namespace and name of a pod.
type Name = (String, String);

/// A pod that this node has from elsewhere.
#[derive(Debug)]
struct Local {
    uid: PodUid,
    pod: Arc<Pod>,
    hash: String,
    /// Its source has it; otherwise it is being ended.
    is_wanted: bool,
    /// Its image is not made before that.
    due: Option<Timestamp>,
    refusals: u32,
    why: String,
    /// Its image has been there since then.
    shown_since: Option<Timestamp>,
    /// The image with that UID says that the pod is over, and it is not.
    outlived: Option<PodUid>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Mirrors {
    locals: BTreeMap<Name, Local>,
    /// Every source of this node has spoken: images of others are of pods that are no more.
    is_complete: bool,
    /// Images whose removal was asked for, until they have gone.
    removed: BTreeMap<PodUid, Removed>,
}

/// An image whose removal was asked for.
#[derive(Debug)]
struct Removed {
    /// It is not asked for again before that.
    due: Timestamp,
    refusals: u32,
}

impl Local {
    /// There is a pod of its name.
    fn is_shown(&mut self, line: &Line, now: Timestamp) {
        self.due = None;
        self.why.clear();
        if line.mirror.as_ref() == Some(&self.hash) {
            self.shown_since.get_or_insert(now);
        } else {
            self.refusals = 0;
        }
    }

    /// There is none, or none any more: whoever removes every image does not get another each time at once.
    fn is_unshown(&mut self, now: Timestamp) {
        let Some(since) = self.shown_since.take() else { return };
        if now < after(since, HEARD_WITHIN) {
            self.due = Some(again(now, &mut self.refusals, 1.0));
        } else {
            self.refusals = 0;
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make one: of which pod, where, and what.
    Make(PodUid, String, Value),
    /// Remove one: which, where, and how.
    Remove(PodUid, String, Value),
}

impl Mirrors {
    /// Takes what is wanted here by now.
    pub fn follow(&mut self, desired: &Desired) {
        self.is_complete = desired.completeness == Completeness::Complete;
        for local in self.locals.values_mut() {
            local.is_wanted = false;
        }
        for wanted in desired.pods.values().filter(|pod| pod.source != SourceKind::Api) {
            let Some(name) = name(&wanted.pod) else { continue };
            let annotations = wanted.pod.metadata.annotations.as_ref();
            let hash = annotations.and_then(|all| all.get(HASH)).cloned().unwrap_or_default();
            match self.locals.get_mut(&name) {
                Some(local) if local.uid == wanted.uid && local.hash == hash => local.is_wanted = true,
                _ => {
                    let local = Local {
                        uid: wanted.uid.clone(),
                        pod: wanted.pod.clone(),
                        hash,
                        is_wanted: true,
                        due: None,
                        refusals: 0,
                        why: String::new(),
                        shown_since: None,
                        outlived: None,
                    };
                    self.locals.insert(name, local);
                }
            }
        }
    }

    /// Forgets those that nobody wants and of which nothing is left.
    pub fn forget(&mut self, is_gone: impl Fn(&PodUid) -> bool) -> bool {
        let before = self.locals.len();
        self.locals.retain(|_, local| local.is_wanted || !is_gone(&local.uid));
        self.locals.len() != before
    }

    /// What is to be done now; when that will be something, where it is nothing.
    pub fn next(&mut self, book: &Book, node: &str, now: Timestamp) -> Result<Step, Option<Timestamp>> {
        let (Some(lines), Some(node_uid)) = (book.lines(), book.seen().node_uid.as_deref()) else {
            return Err(None);
        };
        let there: BTreeMap<(&str, &str), &Line> =
            lines.map(|line| ((&*line.name.namespace, &*line.name.name), line)).collect();
        self.removed.retain(|uid, _| there.values().any(|line| line.uid == *uid));
        let due = |line: &Line| self.removed.get(&line.uid).map(|removed| removed.due);
        let is_to_go = |line: &&&Line| due(line).is_none_or(|due| due <= now) && !self.is_good(line);
        // What has waited longest comes first, so that nothing is kept waiting by what is refused again and again.
        let goes = there.values().filter(is_to_go).map(|line| (due(line), *line)).min_by_key(|(due, _)| *due);
        let mut comes: Option<(Option<Timestamp>, &str, &Local)> = None;
        let mut wake = self.removed.values().map(|removed| removed.due).filter(|due| *due > now).min();
        for ((namespace, name), local) in &mut self.locals {
            if let Some(line) = there.get(&(namespace.as_str(), name.as_str())) {
                local.is_shown(line, now);
            } else if local.is_wanted {
                local.is_unshown(now);
                match local.due.filter(|due| *due > now) {
                    Some(due) => wake = Some(wake.map_or(due, |wake| wake.min(due))),
                    None if comes.is_none_or(|(due, ..)| local.due < due) => {
                        comes = Some((local.due, namespace, local));
                    }
                    None => {}
                }
            }
        }
        match (goes, comes) {
            (Some((_, line)), None) => Ok(removal(line)),
            (Some((due, line)), Some((other, ..))) if due <= other => Ok(removal(line)),
            (_, Some((_, namespace, local))) => {
                let path = format!("/api/v1/namespaces/{namespace}/pods");
                Ok(Step::Make(local.uid.clone(), path, image(local, node, node_uid)))
            }
            (None, None) => Err(wake),
        }
    }

    /// Whether that may stay: it is no image, or one of the version of its pod that there is.
    fn is_good(&self, line: &Line) -> bool {
        let Some(hash) = &line.mirror else { return true };
        let local = self.locals.get(&(line.name.namespace.clone(), line.name.name.clone()));
        local.map_or(!self.is_complete, |local| {
            *hash == local.hash && !line.is_doomed && local.outlived.as_ref() != Some(&line.uid)
        })
    }

    /// It was done: what comes of it is heard in a moment.
    pub fn done(&mut self, step: &Step, now: Timestamp) {
        let until = after(now, HEARD_WITHIN);
        match step {
            Step::Make(uid, ..) => {
                if let Some(local) = self.of_mut(uid) {
                    local.due = Some(until);
                }
            }
            Step::Remove(uid, ..) => {
                self.removed.entry(uid.clone()).or_insert(Removed { due: until, refusals: 0 }).due = until;
            }
        }
    }

    /// It was refused; the pod that is to be told why, where that is news.
    pub fn refused(
        &mut self,
        step: &Step,
        why: &str,
        is_there: bool,
        now: Timestamp,
        share: f64,
    ) -> Option<Arc<Pod>> {
        let uid = match step {
            Step::Make(uid, ..) => uid,
            Step::Remove(uid, ..) => {
                let removed = self.removed.entry(uid.clone()).or_insert(Removed { due: now, refusals: 0 });
                removed.due = again(now, &mut removed.refusals, share);
                return None;
            }
        };
        let local = self.of_mut(uid)?;
        local.due = Some(again(now, &mut local.refusals, share));
        // One that is there already may be our own, of which we hear in a moment.
        let is_news = local.why != why && (!is_there || local.refusals > 1);
        if is_news {
            why.clone_into(&mut local.why);
        }
        is_news.then(|| local.pod.clone())
    }

    /// The image of that pod, where it is one of its version.
    pub fn image_of<'a>(&self, book: &'a Book, uid: &PodUid) -> Option<&'a Line> {
        let (name, local) = self.locals.iter().find(|(_, local)| local.uid == *uid)?;
        let mut lines = book.lines()?;
        let is_its = |line: &&Line| {
            (&line.name.namespace, &line.name.name) == (&name.0, &name.1)
                && line.mirror.as_ref() == Some(&local.hash)
                && !line.is_doomed
        };
        lines.find(is_its)
    }

    /// Its image says that it is over, which it is not: images do not come back to life, so that another is made.
    pub fn outlives(&mut self, uid: &PodUid, image: &PodUid) {
        if let Some(local) = self.of_mut(uid) {
            local.outlived = Some(image.clone());
        }
    }

    /// The pod of that name.
    pub fn uid_of(&self, namespace: &str, name: &str) -> Option<&PodUid> {
        self.locals.get(&(namespace.to_owned(), name.to_owned())).map(|local| &local.uid)
    }

    /// The hash of that pod, by which clients know events of it.
    pub fn hash_of(&self, uid: &str) -> Option<&str> {
        self.locals.values().find(|local| local.uid.as_str() == uid).map(|local| local.hash.as_str())
    }

    fn of_mut(&mut self, uid: &PodUid) -> Option<&mut Local> {
        self.locals.values_mut().find(|local| local.uid == *uid)
    }
}

/// `None` for a pod whose names are none.
fn name(pod: &Pod) -> Option<Name> {
    let metadata = &pod.metadata;
    let name = (metadata.namespace.clone()?, metadata.name.clone()?);
    (is_safe(&name.0) && is_safe(&name.1)).then_some(name)
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Whatever its pod wants, an image goes at once.
fn removal(line: &Line) -> Step {
    let path = format!("/api/v1/namespaces/{}/pods/{}", line.name.namespace, line.name.name);
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": line.uid.as_str()}});
    Step::Remove(line.uid.clone(), path, options)
}

/// The image of a pod: owned by its node, and with nothing that would keep it there.
fn image(local: &Local, node: &str, node_uid: &str) -> Value {
    let mut pod = (*local.pod).clone();
    let metadata = &mut pod.metadata;
    metadata.annotations.get_or_insert_default().insert(MIRROR.to_owned(), local.hash.clone());
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
