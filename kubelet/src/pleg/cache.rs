//! The pod cache: observed state per pod, with the time of inspection of each container.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::{KnownPod, identity};
use crate::observed::{self, PodUid, State};
use crate::runtime::{Identity, Inspected, Listed};

/// The observed state of all containers of the node.
#[derive(Default)]
pub(super) struct PodCache {
    pods: BTreeMap<PodUid, Entry>,
    /// Recently removed containers, with the time of the removal. An inspection that started earlier does not
    /// restore them, but a later one does. While the engine creates a container, it lists the container some
    /// milliseconds before it can be inspected.
    gone: VecDeque<(String, u64)>,
}

/// Maximum number of removed containers that the cache remembers. An inspection takes at most some seconds. A node
/// removes fewer containers in that time.
const GONE_KEPT: usize = 512;

struct Entry {
    pod: watch::Sender<Arc<observed::Pod>>,
    /// Start of the inspection that produced the state of each container, as a time of the PLEG's logical clock.
    inspected_at: BTreeMap<String, u64>,
    /// Containers whose last inspection failed.
    failed: BTreeSet<String>,
}

impl Entry {
    fn new() -> Self {
        Self {
            pod: watch::Sender::new(Arc::default()),
            inspected_at: BTreeMap::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Updates the state and notifies subscribers if it changed.
    fn change(&self, change: impl FnOnce(&mut observed::Pod)) {
        self.pod.send_if_modified(|pod| {
            let mut new = (**pod).clone();
            change(&mut new);
            let is_news = new != **pod;
            if is_news {
                *pod = Arc::new(new);
            }
            is_news
        });
    }

    fn is_gone(&self) -> bool {
        self.pod.borrow().is_gone()
    }
}

impl PodCache {
    pub fn pod(&self, uid: &PodUid) -> Arc<observed::Pod> {
        self.pods.get(uid).map(|entry| entry.pod.borrow().clone()).unwrap_or_default()
    }

    #[cfg(test)]
    pub fn has_entry(&self, uid: &PodUid) -> bool {
        self.pods.contains_key(uid)
    }

    pub fn subscribe(&mut self, uid: &PodUid) -> watch::Receiver<Arc<observed::Pod>> {
        self.pods.entry(uid.clone()).or_insert_with(Entry::new).pod.subscribe()
    }

    pub fn known(&self) -> Vec<KnownPod> {
        let there = self.pods.iter().filter(|(_, entry)| !entry.is_gone());
        there
            .map(|(uid, entry)| {
                let pod = entry.pod.borrow();
                KnownPod { uid: uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() }
            })
            .collect()
    }

    /// Stores the result of an inspection that started at `moment`. Returns true if the pod is new.
    pub fn put(&mut self, moment: u64, seen: Inspected) -> bool {
        let whose = identity(&seen).clone();
        let (id, _) = id_and_state(&seen);
        let id = id.to_owned();
        if self.was_gone_since(&id, moment) {
            return false;
        }
        self.gone.retain(|(gone, _)| *gone != id);
        let entry = self.pods.entry(whose.uid.clone()).or_insert_with(Entry::new);
        if entry.inspected_at.get(&id).is_some_and(|before| *before > moment) {
            return false;
        }
        let is_new = entry.is_gone();
        entry.inspected_at.insert(id.clone(), moment);
        entry.failed.remove(&id);
        entry.change(|pod| {
            name(pod, &whose);
            pod.uninspected.remove(&id);
            match seen {
                Inspected::Sandbox(_, sandbox) => pod.put_sandbox(sandbox),
                Inspected::Container(_, container) => pod.put_container(container),
            }
        });
        is_new
    }

    /// Whether the cache already has a later lifecycle state of this container.
    pub fn is_newer_than(&self, seen: &Inspected) -> bool {
        let (id, state) = id_and_state(seen);
        let Some(entry) = self.pods.get(&identity(seen).uid) else { return false };
        let pod = entry.pod.borrow();
        match (find(&pod, id), state) {
            (Some(State::Exited(exit)), State::Running { started_at, .. }) => exit.finished_at >= *started_at,
            (Some(State::Running { .. } | State::Exited(_)), State::Created) => true,
            _ => false,
        }
    }

    /// Records a failed inspection, so that the next relist repeats it.
    pub fn mark_failed(&mut self, uid: &PodUid, id: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.failed.insert(id.to_owned());
        }
    }

    /// Records a container that was listed but not inspected yet. Returns true if the pod is new.
    pub fn expect(&mut self, moment: u64, whose: &Identity, id: &str) -> bool {
        if self.was_gone_since(id, moment) {
            return false;
        }
        let entry = self.pods.entry(whose.uid.clone()).or_insert_with(Entry::new);
        if entry.inspected_at.contains_key(id) {
            return false;
        }
        let is_new = entry.is_gone();
        entry.change(|pod| {
            name(pod, whose);
            pod.uninspected.insert(id.to_owned());
        });
        is_new
    }

    fn was_gone_since(&self, id: &str, moment: u64) -> bool {
        self.gone.iter().any(|(gone, at)| gone == id && *at > moment)
    }

    /// Removes a container that was gone at `moment`, unless it was inspected later. Returns true if it was the
    /// last of its pod.
    pub fn remove(&mut self, moment: u64, uid: &PodUid, id: &str) -> bool {
        let seen = self.pods.get(uid).and_then(|entry| entry.inspected_at.get(id));
        if seen.is_some_and(|seen| *seen > moment) {
            return false;
        }
        if self.gone.len() == GONE_KEPT {
            self.gone.pop_front();
        }
        self.gone.push_back((id.to_owned(), moment));
        let Some(entry) = self.pods.get_mut(uid) else { return false };
        let was_gone = entry.is_gone();
        entry.inspected_at.remove(id);
        entry.failed.remove(id);
        entry.change(|pod| {
            pod.uninspected.remove(id);
            pod.remove(id);
        });
        !was_gone && entry.is_gone()
    }

    /// Removes containers that a list started at `moment` did not contain, and entries without containers and
    /// subscribers. Returns true if a pod disappeared.
    pub fn remove_unlisted(&mut self, moment: u64, here: &BTreeSet<&str>) -> bool {
        self.pods.retain(|_, entry| !(entry.is_gone() && entry.pod.is_closed()));
        let mut lost = Vec::new();
        for (uid, entry) in &self.pods {
            let pod = entry.pod.borrow();
            let stale = entry
                .inspected_at
                .iter()
                .filter(|(_, inspected_at)| **inspected_at < moment)
                .map(|(id, _)| id);
            for id in stale.chain(&pod.uninspected).filter(|id| !here.contains(id.as_str())) {
                lost.push((uid.clone(), id.clone()));
            }
        }
        lost.iter().fold(false, |any, (uid, id)| self.remove(moment, uid, id) | any)
    }

    /// Whether a listed container must be inspected.
    pub fn needs_inspection(&self, listed: &Listed) -> bool {
        let Some(entry) = self.pods.get(&listed.identity.uid) else { return true };
        if entry.failed.contains(&listed.id) {
            return true;
        }
        let pod = entry.pod.borrow();
        let Some(state) = find(&pod, &listed.id) else { return true };
        match state {
            State::Running { .. } => !listed.running,
            State::Created => listed.running || listed.state != "created",
            State::Exited(_) => listed.running,
        }
    }
}

fn id_and_state(seen: &Inspected) -> (&str, &State) {
    match seen {
        Inspected::Sandbox(_, sandbox) => (&sandbox.id, &sandbox.state),
        Inspected::Container(_, container) => (&container.id, &container.state),
    }
}

fn find<'a>(pod: &'a observed::Pod, id: &str) -> Option<&'a State> {
    let containers = pod.containers.iter().map(|c| (&c.id, &c.state));
    let mut all = containers.chain(pod.sandboxes.iter().map(|s| (&s.id, &s.state)));
    all.find(|(of, _)| *of == id).map(|(_, state)| state)
}

fn name(pod: &mut observed::Pod, whose: &Identity) {
    if pod.name.is_empty() {
        pod.name.clone_from(&whose.pod);
        pod.namespace.clone_from(&whose.namespace);
    }
}
