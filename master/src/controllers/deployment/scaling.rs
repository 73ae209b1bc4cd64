//! Scaling of a Deployment: directly while there is no rollout, in proportion during a rollout. Pure.

use std::cmp::Reverse;

use super::plan::Rollout;
use super::revision::{self, DESIRED_REPLICAS, MAX_REPLICAS};
use super::strategy::is_rolling;

impl Rollout<'_> {
    /// Whether the Deployment was scaled after it sized its ReplicaSets.
    ///
    /// Returns false with the strategy `Recreate` and several ReplicaSets, because they are sized anyway: the pods
    /// of all but one are deleted.
    pub(super) fn was_scaled(&self) -> bool {
        let active: Vec<_> = self.members.iter().filter(|member| member.replicas > 0).collect();
        if !is_rolling(self.deployment) && active.len() > 1 {
            return false;
        }
        let sizes = active.iter().map(|member| &member.set.metadata.annotations);
        let mut sizes = sizes.filter_map(|annotations| revision::number(annotations, DESIRED_REPLICAS));
        sizes.any(|desired| desired != self.deployment.replicas())
    }

    /// Scales the ReplicaSets to the size of the Deployment, without continuing a rollout.
    pub(super) fn scale(&mut self) {
        let wanted = self.deployment.replicas();
        let active: Vec<usize> = (0..self.members.len()).filter(|at| self.replicas_of(*at) > 0).collect();
        match *active {
            [] => {
                if let Some(at) = self.new.or_else(|| self.old().pop()) {
                    self.scale_to(at, wanted);
                }
            }
            [only] => self.set_size(only, wanted),
            _ if self.is_saturated() => {
                for at in self.active_old() {
                    self.scale_to(at, 0);
                }
            }
            _ if is_rolling(self.deployment) => self.scale_in_proportion(active),
            _ => {}
        }
    }

    /// Whether the new ReplicaSet has all pods of the Deployment, and they are available.
    fn is_saturated(&self) -> bool {
        let wanted = self.deployment.replicas();
        self.newest().is_some_and(|new| {
            let desired = new.annotation(DESIRED_REPLICAS).and_then(|text| text.parse().ok());
            new.replicas == wanted && desired == Some(wanted) && new.set.status.available_replicas == wanted
        })
    }

    /// Distributes added or removed pods over the ReplicaSets by their sizes, so that a rollout with a faulty template
    /// does not gain a larger share.
    fn scale_in_proportion(&mut self, mut active: Vec<usize>) {
        let wanted = self.deployment.replicas();
        let allowed = if wanted > 0 { wanted + self.limits.surge } else { 0 };
        let to_add = allowed - self.total_replicas();
        // `active` is sorted by age, oldest first. Among ReplicaSets of equal size, newer ones are scaled up first, and
        // older ones are scaled down first.
        if to_add > 0 {
            active.reverse();
        }
        active.sort_by_key(|at| Reverse(self.replicas_of(*at)));
        let mut left = to_add;
        let mut sizes = Vec::with_capacity(active.len());
        for at in &active {
            let share = self.share(*at);
            // The share of an adopted ReplicaSet is a guess, and may have the wrong sign.
            let share = share.clamp(left.min(0), left.max(0));
            left -= share;
            sizes.push(self.replicas_of(*at) + share);
        }
        // The largest one gets the rest.
        if let Some(first) = sizes.first_mut() {
            *first = (*first + left).max(0);
        }
        for (at, size) in active.into_iter().zip(sizes) {
            self.set_size(at, size);
        }
    }

    /// Returns the change of a ReplicaSet that keeps its share of the Deployment.
    fn share(&self, at: usize) -> i64 {
        let (own, wanted) = (self.replicas_of(at), self.deployment.replicas());
        if wanted == 0 {
            return -own;
        }
        let annotated = self.members.get(at).and_then(|member| {
            revision::number(&member.set.metadata.annotations, MAX_REPLICAS).filter(|max| *max > 0)
        });
        match annotated.unwrap_or(self.deployment.status.replicas) {
            0 => 0,
            before => rounded(own * (wanted + self.limits.surge), before) - own,
        }
    }
}

/// Returns a quotient of positive numbers, rounded half up.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor) / (2 * divisor)
}
