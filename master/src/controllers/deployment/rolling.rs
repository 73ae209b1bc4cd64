//! Rollouts of a new template: rolling update and `Recreate`. Pure.

use super::plan::Rollout;
use super::status;
use super::strategy::is_rolling;

impl Rollout<'_> {
    /// Plans one step of a rolling update: scales the new ReplicaSet up, or else the old ones down.
    pub(super) fn roll(&mut self) {
        match self.new {
            Some(_) => self.sync_new(),
            None => self.create_new(),
        }
        if !self.scale_new() && !self.scale_old_down() && self.is_complete() {
            self.clean_up();
        }
    }

    /// Plans one step of the strategy `Recreate`: the old pods must end before new ones are created.
    pub(super) fn recreate(&mut self) {
        self.sync_new();
        let mut has_scaled = false;
        for at in self.active_old() {
            has_scaled |= self.scale_to(at, 0);
        }
        if has_scaled || self.has_old_pods() {
            return;
        }
        let new = match self.new {
            Some(new) => new,
            None => {
                self.create_new();
                return;
            }
        };
        if !self.scale_to(new, self.deployment.replicas()) && self.is_complete() {
            self.clean_up();
        }
    }

    fn is_complete(&self) -> bool {
        status::is_complete(self.deployment, &self.deployment.status)
    }

    /// Whether old pods exist, or may have been created for a size that the ReplicaSet no longer has.
    fn has_old_pods(&self) -> bool {
        self.old().into_iter().filter_map(|at| self.members.get(at)).any(|member| {
            let (metadata, status) = (&member.set.metadata, &member.set.status);
            let is_observed = status.observed_generation >= metadata.generation;
            status.replicas > 0 || !is_observed || self.with_pods.contains(&*metadata.uid)
        })
    }

    /// Returns the number of replicas that the new ReplicaSet may have now.
    pub(super) fn new_replicas(&self) -> i64 {
        let wanted = self.deployment.replicas();
        if !is_rolling(self.deployment) {
            return wanted;
        }
        let own = self.newest().map_or(0, |new| new.replicas);
        let room = wanted + self.limits.surge - self.total_replicas();
        if room <= 0 { own } else { own + room.min(wanted - own) }
    }

    /// Scales the new ReplicaSet. Returns true if its size changes.
    fn scale_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let (own, wanted) = (self.replicas_of(new), self.deployment.replicas());
        let replicas = if own > wanted { wanted } else { self.new_replicas() };
        self.scale_to(new, replicas)
    }

    /// Scales old ReplicaSets down while enough pods stay available. Returns true if one is scaled.
    fn scale_old_down(&mut self) -> bool {
        // A status of another size may count pods that are already being deleted.
        if self
            .members
            .iter()
            .any(|member| member.set.status.observed_generation < member.set.metadata.generation)
        {
            return false;
        }
        let min_available = self.deployment.replicas() - self.limits.unavailable;
        let unavailable_new = self.new.map_or(0, |new| self.replicas_of(new) - self.available_of(new));
        // New pods that are not available must not lead to the deletion of old ones that are.
        let room = self.total_replicas() - min_available - unavailable_new;
        if room <= 0 {
            return false;
        }
        // Unavailable old pods first: they would block the rollout, and their deletion costs no availability.
        let mut left = room;
        let mut has_scaled = false;
        for at in self.active_old() {
            let (replicas, available) = (self.replicas_of(at), self.available_of(at));
            let count = left.min(replicas - available);
            left -= count;
            has_scaled |= self.scale_to(at, replicas - count);
        }
        let available: i64 = (0..self.members.len()).map(|at| self.available_of(at)).sum();
        let mut left = available - min_available;
        for at in self.active_old() {
            let replicas = self.replicas_of(at);
            let count = replicas.min(left).max(0);
            left -= count;
            has_scaled |= self.scale_to(at, replicas - count);
        }
        has_scaled
    }

    /// Returns the number of available pods that a ReplicaSet keeps. Its status still counts the pods from before
    /// it was scaled down.
    fn available_of(&self, at: usize) -> i64 {
        let Some(member) = self.members.get(at) else { return 0 };
        member.set.status.available_replicas.min(member.replicas)
    }
}
