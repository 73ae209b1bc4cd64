//! The latest snapshot of every source, merged: always in the same order, so that the same wishes give the same result.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::problem::{ObjectName, Problem};
use api::references::{References, TokenKey};
use k8s_openapi::api::core::v1::Pod;

use super::{Completeness, Desired, DesiredPod, Found, FoundProblem, Held, Owner, Snapshot, SourceKind};
use crate::observed::PodUid;

/// The sources of a node and what each said last.
#[derive(Debug)]
pub struct Merge {
    snapshots: BTreeMap<SourceKind, Option<Arc<Snapshot>>>,
    latest: Arc<Desired>,
}

impl Merge {
    /// These sources, of which none has spoken yet.
    pub fn new(sources: impl IntoIterator<Item = SourceKind>) -> Self {
        let snapshots = sources.into_iter().map(|source| (source, None)).collect();
        let mut merge = Self { snapshots, latest: Arc::default() };
        merge.renew();
        merge
    }

    /// What should run here, as far as the sources have spoken.
    pub fn desired(&self) -> &Arc<Desired> {
        &self.latest
    }

    /// Takes the latest of a source. What did not change is the very same as before, down to the result as a whole.
    pub fn put(&mut self, snapshot: Arc<Snapshot>) -> Arc<Desired> {
        self.snapshots.insert(snapshot.source, Some(snapshot));
        self.renew();
        self.latest.clone()
    }

    fn renew(&mut self) {
        let spoken = self.snapshots.values().flatten();
        let mut sum = Sum {
            before: &self.latest,
            now: Desired::default(),
            references: References::default(),
            of_master: References::default(),
        };
        for snapshot in spoken.clone() {
            sum.now.problems.extend(snapshot.problems.iter().cloned());
            sum.now.waiting.extend(snapshot.waiting.iter().cloned());
            for found in &snapshot.objects {
                sum.add(snapshot.source, found);
            }
        }
        let all_complete = |of_master: bool| {
            let mut asked =
                self.snapshots.iter().filter(|(source, _)| (**source == SourceKind::Api) == of_master);
            let is_complete = |snapshot: &Option<Arc<Snapshot>>| {
                snapshot.as_ref().is_some_and(|snapshot| snapshot.completeness == Completeness::Complete)
            };
            if asked.all(|(_, snapshot)| is_complete(snapshot)) {
                Completeness::Complete
            } else {
                Completeness::Incomplete
            }
        };
        let is_unasked = |source: &SourceKind| !self.snapshots.contains_key(source);
        sum.now.unasked = SourceKind::ALL.into_iter().filter(is_unasked).collect();
        sum.now.completeness = all_complete(false);
        sum.now.master = all_complete(true);
        let now = sum.finish();
        if !is_same(&now, &self.latest) {
            self.latest = Arc::new(now);
        }
    }
}

/// The merge under way.
struct Sum<'a> {
    before: &'a Desired,
    now: Desired,
    references: References,
    of_master: References,
}

impl Sum<'_> {
    fn add(&mut self, source: SourceKind, found: &Found) {
        let name = found.object.object_name();
        if source == SourceKind::Api && !matches!(found.object, Held::Pod(_)) {
            return put(&mut self.of_master, &found.object);
        }
        if let Some(owner) = self.now.owners.get(&name) {
            if source == SourceKind::Api
                && owner.source != source
                && let Held::Pod(pod) = &found.object
            {
                let pod = self.desired(pod, source);
                self.now.namesakes.insert(pod.uid.clone(), (pod, owner.origin.clone()));
                return;
            }
            let what = format!("{} stands in {} already", found.name, owner.origin);
            let remedy = format!("rename or remove one of them; the one in {} counts", owner.origin);
            return self.refuse(found, "metadata.name", what, remedy);
        }
        match &found.object {
            Held::Pod(pod) => {
                let desired = self.desired(pod, source);
                let uid = desired.uid.clone();
                if let Some(other) = self.now.pods.get(&uid) {
                    let other = other.pod.metadata.name.clone().unwrap_or_default();
                    let what = format!("the pod {other} has the UID {uid} already");
                    let remedy = "leave metadata.uid out of one of them".to_owned();
                    return self.refuse(found, "metadata.uid", what, remedy);
                }
                self.now.order.push(uid.clone());
                self.now.pods.insert(uid, desired);
            }
            reference @ (Held::ConfigMap(_) | Held::Secret(_) | Held::Token(_) | Held::ApiService(_)) => {
                put(&mut self.references, reference)
            }
        }
        self.now.owners.insert(name, Owner { source, origin: found.origin.clone() });
    }

    /// The pod as it is wanted, the very same as before where it has not changed.
    fn desired(&self, pod: &Arc<Pod>, source: SourceKind) -> Arc<DesiredPod> {
        let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
        let before = self.before.pods.get(&uid).or(self.before.namesakes.get(&uid).map(|(pod, _)| pod));
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
        self.now.references = or_before(self.references, &self.before.references);
        self.now.of_master = or_before(self.of_master, &self.before.of_master);
        self.now
    }
}

/// Takes what pods refer to.
fn put(into: &mut References, reference: &Held) {
    let ObjectName { namespace, name, .. } = reference.object_name();
    match reference {
        Held::ConfigMap(map) => drop(into.config_maps.insert((namespace, name), map.clone())),
        Held::Secret(secret) => drop(into.secrets.insert((namespace, name), secret.clone())),
        Held::Token(token) => drop(into.tokens.insert(TokenKey::of(token), token.clone())),
        Held::ApiService(service) => into.api_service = Some(service.clone()),
        Held::Pod(_) => {}
    }
}

/// What there was before, where it is the very same.
fn or_before(now: References, before: &Arc<References>) -> Arc<References> {
    if same_references(&now, before) { before.clone() } else { Arc::new(now) }
}

fn is_same(a: &Desired, b: &Desired) -> bool {
    a.completeness == b.completeness
        && a.master == b.master
        && a.order == b.order
        && a.pods.iter().all(|(uid, pod)| b.pods.get(uid).is_some_and(|other| Arc::ptr_eq(pod, other)))
        && Arc::ptr_eq(&a.references, &b.references)
        && Arc::ptr_eq(&a.of_master, &b.of_master)
        && a.owners == b.owners
        && a.namesakes == b.namesakes
        && a.waiting == b.waiting
        && a.problems == b.problems
}

fn same_references(a: &References, b: &References) -> bool {
    same(&a.config_maps, &b.config_maps)
        && same(&a.secrets, &b.secrets)
        && same(&a.tokens, &b.tokens)
        && a.api_service == b.api_service
}

fn same<K: PartialEq, T>(a: &BTreeMap<K, Arc<T>>, b: &BTreeMap<K, Arc<T>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((ka, va), (kb, vb))| ka == kb && Arc::ptr_eq(va, vb))
}
