//! Pods that wait for a node: who is next, who pauses after a failure, who waits for something to change. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::filter::Kind;
use super::pod::Pod;
use super::terms::Namespaces;

/// The pause after the first failure; doubled with every further one. The stock scheduler's.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After so long a pod that waits for a change is looked at without one, for what nobody told of.
const ANYWAY: Duration = Duration::from_secs(5 * 60);

/// The order of those who are ready: the highest priority, then who has been ready for longest.
type Rank = (Reverse<i64>, u64);

/// Where a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It is ready, and in that order.
    Ready(Rank),
    /// Until then, after a failure.
    Until(Instant),
    /// For something to change, since then.
    Change(Instant),
    /// For somebody to let it be placed.
    Gated,
    /// Somebody is placing it now; since that change.
    Taken(u64),
    /// For others to be done with extenders, in its old order.
    Line(Rank),
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    waits: Waits,
    failures: u32,
    /// When it failed last.
    failed: Option<Instant>,
    /// What could help it.
    kinds: BTreeSet<Kind>,
    /// It asks for something else than when it was taken.
    is_edited: bool,
}

/// Pods that wait, each once.
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<String, Entry>,
    ready: BTreeSet<(Rank, String)>,
    pausing: BTreeSet<(Instant, String)>,
    waiting: BTreeSet<(Instant, String)>,
    line: BTreeSet<(Rank, String)>,
    /// Counts changes and arrivals.
    clock: u64,
    /// When something last happened that could help.
    helped: HashMap<Kind, u64>,
    /// Those of `waiting` that could be helped by it.
    cares: HashMap<Kind, BTreeSet<(Instant, String)>>,
}

impl Queue {
    /// Takes in a pod without a node as it is now.
    pub fn put(&mut self, pod: Arc<Pod>, now: Instant) {
        let uid = pod.uid.clone();
        match self.entries.get_mut(&uid) {
            None => {
                let is_gated = pod.wants.is_gated;
                let (waits, kinds) = (Waits::Gated, BTreeSet::new());
                let entry = Entry { pod, waits, failures: 0, failed: None, kinds, is_edited: false };
                self.entries.insert(uid.clone(), entry);
                if !is_gated {
                    self.make_ready(&uid);
                }
            }
            Some(entry) => {
                let is_same = entry.pod.wants == pod.wants;
                let is_gated = pod.wants.is_gated;
                entry.pod = pod;
                match entry.waits {
                    // Whoever places it may have looked already, and finds out when that comes to nothing.
                    Waits::Taken(_) => entry.is_edited |= !is_same,
                    _ if is_same => {}
                    _ if is_gated => self.set(&uid, Waits::Gated),
                    Waits::Gated => self.make_ready(&uid),
                    Waits::Ready(_) | Waits::Line(_) => self.make_ready(&uid),
                    Waits::Until(_) | Waits::Change(_) => self.resume(&uid, now),
                }
            }
        }
    }

    /// Forgets a pod.
    pub fn remove(&mut self, uid: &str) {
        self.unlist(uid);
        self.entries.remove(uid);
    }

    /// The identities of all pods that wait.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Takes the next pod.
    ///
    /// # Errors
    /// When there will be one, if nothing else happens.
    pub fn take(&mut self, now: Instant) -> Result<Arc<Pod>, Option<Instant>> {
        self.wake(now);
        let Some((_, uid)) = self.ready.first().cloned() else {
            let pausing = self.pausing.first().map(|(at, _)| *at);
            let waiting = self.waiting.first().map(|(since, _)| *since + ANYWAY);
            return Err(pausing.into_iter().chain(waiting).min());
        };
        self.set(&uid, Waits::Taken(self.clock));
        let entry = self.entries.get_mut(&uid).ok_or(None)?;
        entry.is_edited = false;
        Ok(entry.pod.clone())
    }

    /// The pod, while somebody is placing it.
    pub fn taken(&self, uid: &str) -> Option<Arc<Pod>> {
        let entry = self.entries.get(uid)?;
        matches!(entry.waits, Waits::Taken(_)).then(|| entry.pod.clone())
    }

    /// Whether it waits for a node.
    pub fn has(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    /// Somebody was quicker: the pod is looked at again at once.
    pub fn again(&mut self, uid: &str) {
        self.make_ready(uid);
    }

    /// The pod lets others go before until somebody is let in.
    pub fn line_up(&mut self, uid: &str) {
        self.clock += 1;
        let Some(entry) = self.entries.get(uid) else { return };
        self.set(uid, Waits::Line((Reverse(entry.pod.wants.priority), self.clock)));
    }

    /// Whoever is the first of those who were lined up may go on.
    pub fn let_in(&mut self) {
        if let Some((_, uid)) = self.line.first().cloned() {
            self.make_ready(&uid);
        }
    }

    /// No node could have the pod; what changes of these kinds could help it.
    pub fn refused(&mut self, uid: &str, kinds: BTreeSet<Kind>, now: Instant) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let Waits::Taken(since) = entry.waits else { return };
        let is_helped =
            kinds.iter().any(|kind| self.helped.get(kind).is_some_and(|happened| *happened > since));
        let is_other = is_helped || entry.is_edited;
        entry.kinds = kinds;
        self.failed(uid, now);
        if entry_is_gated(&self.entries, uid) {
            self.set(uid, Waits::Gated);
        } else if is_other {
            self.resume(uid, now);
        } else {
            self.set(uid, Waits::Change(now));
        }
    }

    /// Something went wrong that has nothing to do with nodes: again after a pause.
    pub fn mishap(&mut self, uid: &str, now: Instant) {
        if !self.entries.contains_key(uid) {
            return;
        }
        self.failed(uid, now);
        if entry_is_gated(&self.entries, uid) {
            self.set(uid, Waits::Gated);
        } else {
            self.resume(uid, now);
        }
    }

    /// Something changed of these kinds: pods that it could help are looked at again.
    pub fn changed(&mut self, kinds: &[Kind], now: Instant) {
        self.happened(kinds, now, |_, _| true);
    }

    /// The same through that pod, which is not helped by it.
    pub fn changed_by(&mut self, uid: &str, kinds: &[Kind], now: Instant) {
        self.happened(kinds, now, |_, pod| pod.uid != uid);
    }

    /// A pod has come to a node: those are looked at again who wait for such a one.
    pub fn came(&mut self, came: &Pod, namespaces: &Namespaces, now: Instant) {
        self.happened(&[Kind::Neighbours, Kind::Spread], now, |kind, pod| {
            let wants = &pod.wants;
            match kind {
                Kind::Neighbours => wants.near.iter().any(|term| term.means(came, namespaces)),
                Kind::Spread => wants.spread.iter().any(|spread| spread.term.means(came, namespaces)),
                _ => true,
            }
        });
    }

    /// Has those looked at again who wait for changes of these kinds and are helped by this one; nobody knows of extenders by what
    /// they are.
    fn happened(&mut self, kinds: &[Kind], now: Instant, helps: impl Fn(Kind, &Pod) -> bool) {
        if kinds.is_empty() {
            return;
        }
        self.clock += 1;
        let mut helped = BTreeSet::new();
        for kind in kinds.iter().copied().chain([Kind::Extender]) {
            self.helped.insert(kind, self.clock);
            let is_helped = |(_, uid): &&(Instant, String)| {
                self.entries.get(uid).is_some_and(|entry| helps(kind, &entry.pod))
            };
            helped.extend(self.cares.get(&kind).into_iter().flatten().filter(is_helped).cloned());
        }
        helped.iter().for_each(|(_, uid)| self.resume(uid, now));
    }

    /// A pod that waits for a change is looked at again without one, after its pause.
    pub fn look_again(&mut self, uid: &str, now: Instant) {
        if self.entries.get(uid).is_some_and(|entry| matches!(entry.waits, Waits::Change(_))) {
            self.resume(uid, now);
        }
    }

    fn failed(&mut self, uid: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.failures = entry.failures.saturating_add(1);
            entry.failed = Some(now);
        }
    }

    /// Ready, once its pause is over.
    fn resume(&mut self, uid: &str, now: Instant) {
        let until = self.entries.get(uid).and_then(|entry| Some(entry.failed? + pause(entry.failures)));
        match until.filter(|until| *until > now) {
            Some(until) => self.set(uid, Waits::Until(until)),
            None => self.make_ready(uid),
        }
    }

    fn make_ready(&mut self, uid: &str) {
        self.clock += 1;
        let Some(entry) = self.entries.get(uid) else { return };
        let priority = Reverse(entry.pod.wants.priority);
        let since = match entry.waits {
            Waits::Ready((_, since)) | Waits::Line((_, since)) => since,
            Waits::Until(_) | Waits::Change(_) | Waits::Gated | Waits::Taken(_) => self.clock,
        };
        self.set(uid, Waits::Ready((priority, since)));
    }

    /// Those whose time has come are ready.
    fn wake(&mut self, now: Instant) {
        while let Some((at, uid)) = self.pausing.first().cloned()
            && at <= now
        {
            self.make_ready(&uid);
        }
        while let Some((since, uid)) = self.waiting.first().cloned()
            && since + ANYWAY <= now
        {
            self.make_ready(&uid);
        }
    }

    fn set(&mut self, uid: &str, waits: Waits) {
        self.unlist(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.waits = waits;
        match waits {
            Waits::Ready(rank) => drop(self.ready.insert((rank, uid.to_owned()))),
            Waits::Line(rank) => drop(self.line.insert((rank, uid.to_owned()))),
            Waits::Until(at) => drop(self.pausing.insert((at, uid.to_owned()))),
            Waits::Change(since) => {
                self.waiting.insert((since, uid.to_owned()));
                for kind in &entry.kinds {
                    self.cares.entry(*kind).or_default().insert((since, uid.to_owned()));
                }
            }
            Waits::Gated | Waits::Taken(_) => {}
        }
    }

    fn unlist(&mut self, uid: &str) {
        let Some(entry) = self.entries.get(uid) else { return };
        match entry.waits {
            Waits::Ready(rank) => drop(self.ready.remove(&(rank, uid.to_owned()))),
            Waits::Line(rank) => drop(self.line.remove(&(rank, uid.to_owned()))),
            Waits::Until(at) => drop(self.pausing.remove(&(at, uid.to_owned()))),
            Waits::Change(since) => {
                let known = (since, uid.to_owned());
                self.waiting.remove(&known);
                for kind in &entry.kinds {
                    self.cares.entry(*kind).and_modify(|all| {
                        all.remove(&known);
                    });
                }
            }
            Waits::Gated | Waits::Taken(_) => {}
        }
    }
}

fn entry_is_gated(entries: &HashMap<String, Entry>, uid: &str) -> bool {
    entries.get(uid).is_some_and(|entry| entry.pod.wants.is_gated)
}

/// After so many failures.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    //! Pods in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::super::pod::Wants;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod(uid: &str, priority: i64, is_gated: bool) -> Arc<Pod> {
        let wants = Arc::new(Wants { priority, is_gated, ..Wants::default() });
        Arc::new(Pod { uid: uid.to_owned(), wants, ..Pod::default() })
    }

    fn took(queue: &mut Queue, now: Instant) -> Option<String> {
        queue.take(now).ok().map(|pod| pod.uid.clone())
    }

    #[test]
    fn the_highest_priority_goes_first_and_then_who_came_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (uid, priority) in [("a", 0), ("b", 0), ("c", 9), ("d", -1), ("e", 9)] {
            queue.put(pod(uid, priority, false), now);
        }
        queue.put(pod("b", 0, false), now);
        let order: Vec<String> = std::iter::from_fn(|| took(&mut queue, now)).collect();
        assert_eq!(order, ["c", "e", "a", "b", "d"]);
        queue.remove("a");
        assert_eq!(queue.pods().count(), 4);
    }

    #[test]
    fn a_pod_that_failed_waits_for_what_could_help_it_and_a_growing_pause() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.put(pod("a", 0, false), now);
        for pause in [1, 2, 4, 8, 10, 10] {
            assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
            queue.refused("a", BTreeSet::from([Kind::Room]), now);
            queue.changed(&[Kind::Taint], now);
            assert_eq!(queue.take(now), Err(Some(now + ANYWAY)), "that helps nobody");
            queue.changed(&[Kind::Room, Kind::Taint], now);
            assert_eq!(queue.take(now), Err(Some(now + SECOND * pause)));
            now += SECOND * pause;
        }
        assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
        queue.refused("a", BTreeSet::from([Kind::Room]), now);
        assert_eq!(took(&mut queue, now + ANYWAY).as_deref(), Some("a"), "nobody told of anything");
        queue.changed(&[Kind::Room], now + ANYWAY);
        queue.refused("a", BTreeSet::from([Kind::Room]), now + ANYWAY);
        assert_eq!(queue.take(now + ANYWAY), Err(Some(now + ANYWAY + LONGEST_PAUSE)), "it changed meanwhile");
    }

    #[test]
    fn a_gate_holds_a_pod_and_an_edit_is_looked_at() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.put(pod("a", 0, true), now);
        assert_eq!(queue.take(now), Err(None));
        queue.put(pod("a", 0, false), now);
        assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
        queue.refused("a", BTreeSet::from([Kind::Affinity]), now);
        queue.put(pod("a", 1, false), now);
        assert_eq!(queue.take(now), Err(Some(now + SECOND)));
        queue.put(pod("a", 1, true), now);
        assert_eq!(queue.take(now + SECOND), Err(None));
        queue.mishap("a", now);
        assert_eq!(queue.take(now + SECOND), Err(None));
    }
}
