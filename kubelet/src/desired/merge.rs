//! Merges the latest snapshot of every pod source, in a fixed order, so that equal snapshots give equal results.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::problem::{ObjectName, Problem};
use api::references::{References, TokenKey};
use k8s_openapi::api::core::v1::Pod;

use super::{
    Completeness, Desired, DesiredPod, Found, FoundProblem, Owner, Snapshot, SourceKind, SourceObject,
};
use crate::observed::PodUid;

/// The configured sources and their latest snapshots.
#[derive(Debug)]
pub struct Merge {
    snapshots: BTreeMap<SourceKind, Option<Arc<Snapshot>>>,
    latest: Arc<Desired>,
}

impl Merge {
    /// Creates a merge of these sources. None of them has sent a snapshot yet.
    pub fn new(sources: impl IntoIterator<Item = SourceKind>) -> Self {
        let snapshots = sources.into_iter().map(|source| (source, None)).collect();
        let mut merge = Self { snapshots, latest: Arc::default() };
        merge.renew();
        merge
    }

    /// The current result of the merge.
    pub fn desired(&self) -> &Arc<Desired> {
        &self.latest
    }

    /// Stores the latest snapshot of a source and merges again. Unchanged parts of the result keep their pointers.
    pub fn put(&mut self, snapshot: Arc<Snapshot>) -> Arc<Desired> {
        self.snapshots.insert(snapshot.source, Some(snapshot));
        self.renew();
        self.latest.clone()
    }

    fn renew(&mut self) {
        let received = self.snapshots.values().flatten();
        let mut sum = Sum {
            before: &self.latest,
            now: Desired::default(),
            references: References::default(),
            api_references: References::default(),
        };
        for snapshot in received.clone() {
            sum.now.problems.extend(snapshot.problems.iter().cloned());
            sum.now.waiting.extend(snapshot.waiting.iter().cloned());
            for found in &snapshot.objects {
                sum.add(snapshot.source, found);
            }
        }
        let all_complete = |api_references: bool| {
            let mut sources_read =
                self.snapshots.iter().filter(|(source, _)| (**source == SourceKind::Api) == api_references);
            let is_complete = |snapshot: &Option<Arc<Snapshot>>| {
                snapshot.as_ref().is_some_and(|snapshot| snapshot.completeness == Completeness::Complete)
            };
            if sources_read.all(|(_, snapshot)| is_complete(snapshot)) {
                Completeness::Complete
            } else {
                Completeness::Incomplete
            }
        };
        let is_not_requested = |source: &SourceKind| !self.snapshots.contains_key(source);
        sum.now.unconfigured = SourceKind::ALL.into_iter().filter(is_not_requested).collect();
        sum.now.completeness = all_complete(false);
        sum.now.api_completeness = all_complete(true);
        let now = sum.finish();
        if !is_same(&now, &self.latest) {
            self.latest = Arc::new(now);
        }
    }
}

/// A merge in progress.
struct Sum<'a> {
    before: &'a Desired,
    now: Desired,
    references: References,
    api_references: References,
}

impl Sum<'_> {
    fn add(&mut self, source: SourceKind, found: &Found) {
        let name = found.object.object_name();
        if source == SourceKind::Api && !matches!(found.object, SourceObject::Pod(_)) {
            return put(&mut self.api_references, &found.object);
        }
        if let Some(owner) = self.now.owners.get(&name) {
            if source == SourceKind::Api
                && owner.source != source
                && let SourceObject::Pod(pod) = &found.object
            {
                let pod = self.desired(pod, source);
                self.now.name_conflicts.insert(pod.uid.clone(), (pod, owner.origin.clone()));
                return;
            }
            let what = format!("{} is already defined in {}", found.name, owner.origin);
            let remedy = format!("rename or remove one of them; the one in {} is used", owner.origin);
            return self.refuse(found, "metadata.name", what, remedy);
        }
        match &found.object {
            SourceObject::Pod(pod) => {
                let desired = self.desired(pod, source);
                let uid = desired.uid.clone();
                if let Some(other) = self.now.pods.get(&uid) {
                    let other = other.pod.metadata.name.clone().unwrap_or_default();
                    let what = format!("the pod {other} already has the UID {uid}");
                    let remedy = "remove metadata.uid from one of them".to_owned();
                    return self.refuse(found, "metadata.uid", what, remedy);
                }
                self.now.order.push(uid.clone());
                self.now.pods.insert(uid, desired);
            }
            reference @ (SourceObject::ConfigMap(_)
            | SourceObject::Secret(_)
            | SourceObject::Token(_)
            | SourceObject::Claim(_)
            | SourceObject::Service(_)
            | SourceObject::ApiService(_)) => put(&mut self.references, reference),
        }
        self.now.owners.insert(name, Owner { source, origin: found.origin.clone() });
    }

    /// The desired pod. It keeps the previous pointer if the pod has not changed.
    fn desired(&self, pod: &Arc<Pod>, source: SourceKind) -> Arc<DesiredPod> {
        let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
        let before = self.before.pods.get(&uid).or(self.before.name_conflicts.get(&uid).map(|(pod, _)| pod));
        match before {
            Some(before) if Arc::ptr_eq(&before.pod, pod) && before.source == source => before.clone(),
            _ => Arc::new(DesiredPod { uid, pod: pod.clone(), source }),
        }
    }

    fn refuse(&mut self, found: &Found, path: &str, what: String, remedy: String) {
        let problem = Problem {
            line: 0,
            column: 0,
            path: path.to_owned(),
            what,
            remedy,
            object: Some((*found.name).clone()),
        };
        self.now.problems.push(FoundProblem { origin: found.origin.clone(), problem, last_good: false });
    }

    fn finish(mut self) -> Desired {
        self.now.references = keep_if_same(self.references, &self.before.references);
        self.now.api_references = keep_if_same(self.api_references, &self.before.api_references);
        self.now
    }
}

/// Adds a ConfigMap, Secret, token, claim or Service to the references.
fn put(into: &mut References, reference: &SourceObject) {
    let ObjectName { namespace, name, .. } = reference.object_name();
    match reference {
        SourceObject::ConfigMap(map) => drop(into.config_maps.insert((namespace, name), map.clone())),
        SourceObject::Secret(secret) => drop(into.secrets.insert((namespace, name), secret.clone())),
        SourceObject::Token(token) => drop(into.tokens.insert(TokenKey::of(token), token.clone())),
        SourceObject::Claim(claim) => drop(into.claims.insert(claim.key.clone(), claim.clone())),
        SourceObject::Service(service) => drop(into.services.insert((namespace, name), service.clone())),
        SourceObject::ApiService(service) => into.api_service = Some(service.clone()),
        SourceObject::Pod(_) => {}
    }
}

/// Returns the previous references if they are equal, otherwise the new ones.
fn keep_if_same(now: References, before: &Arc<References>) -> Arc<References> {
    if same_references(&now, before) { before.clone() } else { Arc::new(now) }
}

fn is_same(a: &Desired, b: &Desired) -> bool {
    a.completeness == b.completeness
        && a.api_completeness == b.api_completeness
        && a.order == b.order
        && a.pods.iter().all(|(uid, pod)| b.pods.get(uid).is_some_and(|other| Arc::ptr_eq(pod, other)))
        && Arc::ptr_eq(&a.references, &b.references)
        && Arc::ptr_eq(&a.api_references, &b.api_references)
        && a.owners == b.owners
        && a.name_conflicts == b.name_conflicts
        && a.waiting == b.waiting
        && a.problems == b.problems
}

fn same_references(a: &References, b: &References) -> bool {
    same(&a.config_maps, &b.config_maps)
        && same(&a.secrets, &b.secrets)
        && same(&a.tokens, &b.tokens)
        && same(&a.claims, &b.claims)
        && same(&a.services, &b.services)
        && a.api_service == b.api_service
}

fn same<K: PartialEq, T>(a: &BTreeMap<K, Arc<T>>, b: &BTreeMap<K, Arc<T>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((ka, va), (kb, vb))| ka == kb && Arc::ptr_eq(va, vb))
}
