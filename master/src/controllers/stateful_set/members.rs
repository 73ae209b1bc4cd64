//! The pods of a StatefulSet by ordinal, and the order in which they are created, deleted and updated. Pure.

use std::collections::BTreeMap;

use super::claims::{Ownership, User, ownership};
use super::identity::{claim_name, labels, ordinal};
use super::plan::{BURST, Input, Write, delete, missing_claims, new_pod};
use super::status::{is_available, revision};
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::values::Rounding;

/// The pods of a StatefulSet.
pub(super) struct Members<'i, 'a> {
    input: &'i Input<'a>,
    /// Pods with an ordinal, which are those in the range and the condemned ones.
    pods: BTreeMap<i64, Replica<'a>>,
    /// The first ordinal, and the one after the last.
    range: std::ops::Range<i64>,
}

impl<'i, 'a> Members<'i, 'a> {
    pub fn of(input: &'i Input<'a>) -> Self {
        let start = input.set.spec.ordinals.start;
        let set = &input.set.metadata.name;
        let with_ordinal = |pod: &Replica<'a>| Some((ordinal(set, pod.name)?, *pod));
        let pods = input.pods.iter().filter_map(with_ordinal).collect();
        Self { input, pods, range: start..start.saturating_add(input.set.replicas().max(0)) }
    }

    pub fn all(&self) -> impl Iterator<Item = &Replica<'a>> + Clone {
        self.pods.values()
    }

    fn is_available(&self, pod: &Replica<'_>) -> bool {
        !pod.is_terminating && is_available(self.input.set, pod, self.input.now)
    }

    /// Pods in the range that exist, from the highest ordinal.
    fn descending(&self) -> impl Iterator<Item = (i64, &Replica<'a>)> {
        self.pods.range(self.range.clone()).rev().map(|(ordinal, pod)| (*ordinal, pod))
    }

    /// Pods outside the range, from the highest ordinal.
    fn condemned(&self) -> impl Iterator<Item = &Replica<'a>> {
        self.pods.iter().rev().filter(|(ordinal, _)| !self.range.contains(*ordinal)).map(|(_, pod)| pod)
    }

    /// Adds the phases before the rolling update, and returns the pods that the update deletes.
    ///
    /// Scaling has precedence over the update. Without `Parallel`, an unhealthy pod stops everything after it. Thus a
    /// pod that a bad template has broken is not replaced when the template is repaired: a user must delete it, as in
    /// stock Kubernetes.
    pub fn steps(&self, phases: &mut Vec<Vec<Write<'a>>>) -> Vec<Replica<'a>> {
        let (writes, is_blocked) = self.replicas();
        phases.push(writes);
        if is_blocked {
            return Vec::new();
        }
        phases.push(self.condemned().flat_map(|pod| self.owned_claims(pod, true)).collect());
        let (writes, is_blocked) = self.scale_down();
        phases.push(writes);
        if is_blocked || !self.input.set.is_rolling() {
            return Vec::new();
        }
        self.updates()
    }

    /// Creates missing pods and repairs the others, in ascending order. Returns true if nothing else may happen.
    fn replicas(&self) -> (Vec<Write<'a>>, bool) {
        let is_parallel = self.input.set.is_parallel();
        let (mut writes, mut created) = (Vec::new(), 0);
        for ordinal in self.range.clone() {
            let Some(pod) = self.pods.get(&ordinal) else {
                let new = new_pod(self.input, ordinal).map(Write::Create);
                created += usize::from(new.is_some());
                writes.extend(new);
                if !is_parallel || created == BURST {
                    return (writes, true);
                }
                continue;
            };
            if pod.is_terminal() {
                writes.extend((!pod.is_terminating).then(|| delete(pod)));
            } else if !pod.is_terminating {
                self.repair(pod, ordinal, &mut writes);
            }
            if !is_parallel && !self.is_available(pod) {
                return (writes, true);
            }
        }
        (writes, false)
    }

    /// Repairs the labels and claims of a pod. A pod with claims that it lacks cannot start.
    fn repair(&self, pod: &Replica<'a>, ordinal: i64, writes: &mut Vec<Write<'a>>) {
        if pod.phase == Phase::Pending {
            let claims = missing_claims(self.input, pod.name);
            if !claims.is_empty() {
                writes.push(Write::CreateClaims { pod: pod.name, claims });
            }
        }
        if labels(pod.name, ordinal)
            .iter()
            .any(|(label, value)| pod.labels.get(label) != Some(value.as_str()))
        {
            writes.push(Write::Relabel { name: pod.name, uid: pod.uid, ordinal });
        }
        writes.extend(self.owned_claims(pod, false));
    }

    /// Returns the claims of a pod with wrong owner references.
    fn owned_claims(&self, pod: &Replica<'a>, is_condemned: bool) -> Vec<Write<'a>> {
        let user = User { name: pod.name, uid: pod.uid, is_condemned };
        let templates = self.input.set.spec.volume_claim_templates.iter();
        let names = templates.map(|template| claim_name(&template.metadata.name, pod.name));
        let is_wrong = |name: &String| {
            let claim = self.input.claims.get(&**name);
            claim.is_some_and(|claim| ownership(self.input.set, user, claim.owners) != Ownership::Keep)
        };
        names.filter(is_wrong).map(|claim| Write::OwnClaim { claim, user }).collect()
    }

    /// Deletes pods outside the range, in descending order. Returns true if nothing else may happen.
    fn scale_down(&self) -> (Vec<Write<'a>>, bool) {
        if self.input.set.is_parallel() {
            return (self.condemned().filter(|pod| !pod.is_terminating).map(delete).collect(), false);
        }
        let Some(last) = self.condemned().next() else { return (Vec::new(), false) };
        // The unhealthy pod with the lowest ordinal may be deleted, others must be healthy. A pod that has ended never
        // becomes healthy. The stock controller waits for it if another unhealthy pod is below it.
        let first_unhealthy = self.condemned().filter(|pod| !self.is_available(pod)).last();
        let is_first = first_unhealthy.is_some_and(|pod| pod.uid == last.uid);
        let may_go = self.is_available(last) || last.is_terminal() || is_first;
        (if may_go && !last.is_terminating { vec![delete(last)] } else { Vec::new() }, true)
    }

    /// Returns the pods of another revision that the rolling update deletes now, from the highest ordinal.
    fn updates(&self) -> Vec<Replica<'a>> {
        let rolling = self.input.set.spec.update_strategy.rolling_update.as_ref();
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let first = self.range.start.saturating_add(partition);
        match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            None => self.next_update(first).into_iter().collect(),
            Some(limit) => {
                let limit = limit.scaled(self.input.set.replicas(), Rounding::Down).max(1);
                self.updates_within(first, limit)
            }
        }
    }

    fn is_old(&self, pod: &Replica<'_>) -> bool {
        !pod.is_terminating && revision(pod) != self.input.revisions.update
    }

    /// Returns the pod with the highest ordinal that is not updated, if all pods above it are available.
    fn next_update(&self, first: i64) -> Option<Replica<'a>> {
        let mut expected = self.range.end;
        for (ordinal, pod) in self.descending().take_while(|(ordinal, _)| *ordinal >= first) {
            expected -= 1;
            if ordinal != expected {
                return None;
            }
            if self.is_old(pod) {
                return Some(*pod);
            }
            if !self.is_available(pod) {
                return None;
            }
        }
        None
    }

    /// Returns the pods to update so that at most `limit` pods of the range are unavailable.
    ///
    /// With `Parallel`, unavailable pods of another revision are replaced first, whatever the limit: they would never
    /// become available, and their deletion makes no further pod unavailable.
    fn updates_within(&self, first: i64, limit: i64) -> Vec<Replica<'a>> {
        let available = self.descending().filter(|(_, pod)| self.is_available(pod)).count();
        let unavailable = self.input.set.replicas() - i64::try_from(available).unwrap_or(i64::MAX);
        let budget = usize::try_from(limit - unavailable).unwrap_or(0);
        let old = || self.descending().filter(move |(ordinal, pod)| *ordinal >= first && self.is_old(pod));
        let is_broken = |pod: &Replica<'_>| self.input.set.is_parallel() && !self.is_available(pod);
        let broken = old().filter(|(_, pod)| is_broken(pod));
        let others = old().filter(|(_, pod)| !is_broken(pod)).take(budget);
        broken.chain(others).map(|(_, pod)| *pod).collect()
    }
}
