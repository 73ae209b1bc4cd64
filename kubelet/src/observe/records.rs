//! The records themselves: per pod what was seen, per container the moment of the look it came from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::{Known, identity};
use crate::observed::{self, PodUid, State};
use crate::runtime::{Identity, Listed, Seen};

/// Everything known of the node's containers.
#[derive(Default)]
pub(super) struct Records {
    pods: BTreeMap<PodUid, Entry>,
    /// The last containers that were found gone, and the moment of that, so that a look which began before does not
    /// bring one back. One that is seen later is there all the same: while the engine makes a container it lists it
    /// for some milliseconds before it can be looked at.
    gone: VecDeque<(String, u64)>,
}

/// A look takes seconds at most, in which a node does not lose more containers than this.
const GONE_KEPT: usize = 512;

struct Entry {
    pod: watch::Sender<Arc<observed::Pod>>,
    /// The moment of the look each container's record came from.
    looked: BTreeMap<String, u64>,
    /// Containers whose last look failed.
    doubtful: BTreeSet<String>,
}

impl Entry {
    fn new() -> Self {
        Self { pod: watch::Sender::new(Arc::default()), looked: BTreeMap::new(), doubtful: BTreeSet::new() }
    }

    /// Changes the record and wakes whoever follows it, if it really changed.
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

impl Records {
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

    pub fn known(&self) -> Vec<Known> {
        let there = self.pods.iter().filter(|(_, entry)| !entry.is_gone());
        there
            .map(|(uid, entry)| {
                let pod = entry.pod.borrow();
                Known { uid: uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() }
            })
            .collect()
    }

    /// Stores what a look that began at `moment` has seen; true when its pod is new.
    pub fn put(&mut self, moment: u64, seen: Seen) -> bool {
        let whose = identity(&seen).clone();
        let (id, _) = id_and_state(&seen);
        let id = id.to_owned();
        if self.was_gone_since(&id, moment) {
            return false;
        }
        self.gone.retain(|(gone, _)| *gone != id);
        let entry = self.pods.entry(whose.uid.clone()).or_insert_with(Entry::new);
        if entry.looked.get(&id).is_some_and(|before| *before > moment) {
            return false;
        }
        let is_new = entry.is_gone();
        entry.looked.insert(id.clone(), moment);
        entry.doubtful.remove(&id);
        entry.change(|pod| {
            name(pod, &whose);
            pod.unseen.remove(&id);
            match seen {
                Seen::Sandbox(_, sandbox) => pod.put_sandbox(sandbox),
                Seen::Container(_, container) => pod.put_container(container),
            }
        });
        is_new
    }

    /// True when the record knows more of a container's life than this.
    pub fn is_behind(&self, seen: &Seen) -> bool {
        let (id, state) = id_and_state(seen);
        let Some(entry) = self.pods.get(&identity(seen).uid) else { return false };
        let pod = entry.pod.borrow();
        match (find(&pod, id), state) {
            (Some(State::Exited(exit)), State::Running { started_at, .. }) => exit.finished_at >= *started_at,
            (Some(State::Running { .. } | State::Exited(_)), State::Created) => true,
            _ => false,
        }
    }

    /// Notes that a look at a container failed, so that the next list leads to another.
    pub fn doubt(&mut self, uid: &PodUid, id: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.doubtful.insert(id.to_owned());
        }
    }

    /// Notes that a container is there though nothing more is known of it yet; true when its pod is new.
    pub fn expect(&mut self, moment: u64, whose: &Identity, id: &str) -> bool {
        if self.was_gone_since(id, moment) {
            return false;
        }
        let entry = self.pods.entry(whose.uid.clone()).or_insert_with(Entry::new);
        if entry.looked.contains_key(id) {
            return false;
        }
        let is_new = entry.is_gone();
        entry.change(|pod| {
            name(pod, whose);
            pod.unseen.insert(id.to_owned());
        });
        is_new
    }

    fn was_gone_since(&self, id: &str, moment: u64) -> bool {
        self.gone.iter().any(|(gone, at)| gone == id && *at > moment)
    }

    /// Takes out a container that was found gone at `moment`, unless it has been seen since; true when it was the last
    /// of its pod.
    pub fn remove(&mut self, moment: u64, uid: &PodUid, id: &str) -> bool {
        let seen = self.pods.get(uid).and_then(|entry| entry.looked.get(id));
        if seen.is_some_and(|seen| *seen > moment) {
            return false;
        }
        if self.gone.len() == GONE_KEPT {
            self.gone.pop_front();
        }
        self.gone.push_back((id.to_owned(), moment));
        let Some(entry) = self.pods.get_mut(uid) else { return false };
        let was_gone = entry.is_gone();
        entry.looked.remove(id);
        entry.doubtful.remove(id);
        entry.change(|pod| {
            pod.unseen.remove(id);
            pod.remove(id);
        });
        !was_gone && entry.is_gone()
    }

    /// Takes out whatever a list that began at `moment` no longer showed, and the entries of pods that are gone and
    /// that nobody follows any more; true when a pod went with it.
    pub fn sweep(&mut self, moment: u64, here: &BTreeSet<&str>) -> bool {
        self.pods.retain(|_, entry| !(entry.is_gone() && entry.pod.is_closed()));
        let mut lost = Vec::new();
        for (uid, entry) in &self.pods {
            let pod = entry.pod.borrow();
            let stale = entry.looked.iter().filter(|(_, looked)| **looked < moment).map(|(id, _)| id);
            for id in stale.chain(&pod.unseen).filter(|id| !here.contains(id.as_str())) {
                lost.push((uid.clone(), id.clone()));
            }
        }
        lost.iter().fold(false, |any, (uid, id)| self.remove(moment, uid, id) | any)
    }

    /// True when a closer look at what was listed is due.
    pub fn differs(&self, listed: &Listed) -> bool {
        let Some(entry) = self.pods.get(&listed.identity.uid) else { return true };
        if entry.doubtful.contains(&listed.id) {
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

fn id_and_state(seen: &Seen) -> (&str, &State) {
    match seen {
        Seen::Sandbox(_, sandbox) => (&sandbox.id, &sandbox.state),
        Seen::Container(_, container) => (&container.id, &container.state),
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
