//! The latest snapshot of every source, merged: always in the same order, so that the same wishes give the same result.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::problem::Problem;
use api::references::References;

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
        let mut sum =
            Sum { before: &self.latest, now: Desired::default(), references: References::default() };
        for snapshot in spoken.clone() {
            sum.now.problems.extend(snapshot.problems.iter().cloned());
            for found in &snapshot.objects {
                sum.add(snapshot.source, found);
            }
        }
        let is_complete = |snapshot: &Option<Arc<Snapshot>>| {
            snapshot.as_ref().is_some_and(|snapshot| snapshot.completeness == Completeness::Complete)
        };
        if self.snapshots.values().all(is_complete) {
            sum.now.completeness = Completeness::Complete;
        }
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
}

impl Sum<'_> {
    fn add(&mut self, source: SourceKind, found: &Found) {
        let name = found.object.object_name();
        if let Some(owner) = self.now.owners.get(&name) {
            let what = format!("{} stands in {} already", found.name, owner.origin);
            let remedy = format!("rename or remove one of them; the one in {} counts", owner.origin);
            return self.refuse(found, "metadata.name", what, remedy);
        }
        match &found.object {
            Held::Pod(pod) => {
                let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
                if let Some(other) = self.now.pods.get(&uid) {
                    let other = other.pod.metadata.name.clone().unwrap_or_default();
                    let what = format!("the pod {other} has the UID {uid} already");
                    let remedy = "leave metadata.uid out of one of them".to_owned();
                    return self.refuse(found, "metadata.uid", what, remedy);
                }
                let desired = match self.before.pods.get(&uid) {
                    Some(before) if Arc::ptr_eq(&before.pod, pod) && before.source == source => {
                        before.clone()
                    }
                    _ => Arc::new(DesiredPod { uid: uid.clone(), pod: pod.clone(), source }),
                };
                self.now.order.push(uid.clone());
                self.now.pods.insert(uid, desired);
            }
            Held::ConfigMap(map) => {
                let key = (name.namespace.clone(), name.name.clone());
                self.references.config_maps.insert(key, map.clone());
            }
            Held::Secret(secret) => {
                let key = (name.namespace.clone(), name.name.clone());
                self.references.secrets.insert(key, secret.clone());
            }
        }
        self.now.owners.insert(name, Owner { source, origin: found.origin.clone() });
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
        self.now.references = if same_references(&self.references, &self.before.references) {
            self.before.references.clone()
        } else {
            Arc::new(self.references)
        };
        self.now
    }
}

fn is_same(a: &Desired, b: &Desired) -> bool {
    a.completeness == b.completeness
        && a.order == b.order
        && a.pods.iter().all(|(uid, pod)| b.pods.get(uid).is_some_and(|other| Arc::ptr_eq(pod, other)))
        && Arc::ptr_eq(&a.references, &b.references)
        && a.owners == b.owners
        && a.problems == b.problems
}

fn same_references(a: &References, b: &References) -> bool {
    same(&a.config_maps, &b.config_maps) && same(&a.secrets, &b.secrets)
}

fn same<T>(a: &BTreeMap<(String, String), Arc<T>>, b: &BTreeMap<(String, String), Arc<T>>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((ka, va), (kb, vb))| ka == kb && Arc::ptr_eq(va, vb))
}
