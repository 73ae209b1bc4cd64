//! Plans a Deployment: which ReplicaSets to create, change and delete, and the status. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::revision::{self, DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::status::{self, Mode};
use super::strategy::{Limits, is_rolling};
use crate::objects::deployment::DeploymentStatus;
use crate::objects::{Deployment, ReplicaSet};

/// The annotations to set.
pub type Annotations = BTreeMap<Box<str>, Box<str>>;

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub deployment: &'a Deployment,
    /// The ReplicaSets of the Deployment.
    pub sets: &'a [&'a ReplicaSet],
    /// UIDs of ReplicaSets with pods that have not ended, including terminating ones.
    pub with_pods: &'a HashSet<&'a str>,
    pub now: Timestamp,
}

/// The writes of one reconciliation, in order. The status is written after them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub writes: Vec<Write>,
    pub status: DeploymentStatus,
    /// The new revision annotation, if the Deployment has another one.
    pub revision: Option<Box<str>>,
    /// The time until the progress deadline must be checked.
    pub requeue_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Create(NewReplicaSet),
    Change(Change),
    /// Delete an old ReplicaSet without pods, if it still has this resource version.
    Delete {
        name: Box<str>,
        uid: Box<str>,
        resource_version: Box<str>,
    },
}

/// A ReplicaSet to create for the current template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplicaSet {
    pub name: Box<str>,
    /// The value of `pod-template-hash`.
    pub hash: Box<str>,
    pub replicas: i64,
    pub annotations: Annotations,
}

/// A change of a ReplicaSet, if it still has this resource version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: Box<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    /// The replicas before and after the change, if they change.
    pub scale: Option<(i64, i64)>,
    pub min_ready_seconds: Option<i64>,
    pub annotations: Annotations,
}

/// Plans the next step of a Deployment.
pub fn plan(input: Input<'_>) -> Plan {
    let deployment = input.deployment;
    let mut rollout = Rollout::new(input);
    let mode = if deployment.metadata.is_terminating() {
        rollout.sync_new();
        Mode::Counts
    } else if deployment.spec.paused || rollout.was_scaled() {
        rollout.status = status::with_pause(deployment, input.now);
        rollout.sync_new();
        rollout.scale();
        if deployment.spec.paused {
            rollout.clean_up();
        }
        Mode::Counts
    } else {
        rollout.status = status::with_pause(deployment, input.now);
        if is_rolling(deployment) {
            rollout.roll()
        } else {
            rollout.recreate()
        }
        Mode::Progress
    };
    rollout.finish(mode)
}

/// A ReplicaSet with its planned changes.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub set: Cow<'a, ReplicaSet>,
    pub replicas: i64,
    min_ready_seconds: i64,
    annotations: Annotations,
    /// The hash of a ReplicaSet that is to be created.
    hash: Option<Box<str>>,
    is_deleted: bool,
}

impl<'a> Member<'a> {
    fn of(set: &'a ReplicaSet) -> Self {
        Self {
            set: Cow::Borrowed(set),
            replicas: set.replicas(),
            min_ready_seconds: set.spec.min_ready_seconds,
            annotations: Annotations::new(),
            hash: None,
            is_deleted: false,
        }
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(|value| &**value).or_else(|| self.set.metadata.annotations.get(key))
    }

    fn annotate(&mut self, key: &str, value: String) {
        if self.annotation(key) != Some(&value) {
            self.annotations.insert(key.into(), value.into());
        }
    }

    /// Returns the sort key of age: creation time and name.
    pub(super) fn age(&self) -> (Option<Timestamp>, &str) {
        (self.set.metadata.creation_timestamp, &self.set.metadata.name)
    }

    /// Returns the write that carries out the changes, if there are any.
    fn write(self) -> Option<Write> {
        let metadata = &self.set.metadata;
        let (name, uid) = (metadata.name.clone(), metadata.uid.clone());
        if let Some(hash) = self.hash {
            let (replicas, annotations) = (self.replicas, self.annotations);
            return Some(Write::Create(NewReplicaSet { name, hash, replicas, annotations }));
        }
        let resource_version = metadata.resource_version.clone();
        if self.is_deleted {
            return Some(Write::Delete { name, uid, resource_version });
        }
        let before = self.set.replicas();
        let scale = (before != self.replicas).then_some((before, self.replicas));
        let is_changed = self.min_ready_seconds != self.set.spec.min_ready_seconds;
        let min_ready_seconds = is_changed.then_some(self.min_ready_seconds);
        let annotations = self.annotations;
        let is_needed = scale.is_some() || min_ready_seconds.is_some() || !annotations.is_empty();
        is_needed.then_some(Write::Change(Change {
            name,
            uid,
            resource_version,
            scale,
            min_ready_seconds,
            annotations,
        }))
    }
}

/// The state of planning.
pub(super) struct Rollout<'a> {
    pub deployment: &'a Deployment,
    pub limits: Limits,
    pub with_pods: &'a HashSet<&'a str>,
    /// All ReplicaSets, oldest first. One that is to be created is last.
    pub members: Vec<Member<'a>>,
    /// Index of the ReplicaSet of the current template.
    pub new: Option<usize>,
    /// The current status, with the conditions that this plan has set.
    pub status: DeploymentStatus,
    pub revision: Option<Box<str>>,
    pub now: Timestamp,
}

impl<'a> Rollout<'a> {
    fn new(input: Input<'a>) -> Self {
        let Input { deployment, sets, with_pods, now } = input;
        let mut members: Vec<Member<'a>> = sets.iter().map(|set| Member::of(set)).collect();
        members.sort_by(|one, other| one.age().cmp(&other.age()));
        let wanted = deployment.spec.template.digest;
        let new = members.iter().position(|member| member.set.spec.template.digest == wanted);
        Self {
            deployment,
            limits: Limits::of(deployment),
            with_pods,
            members,
            new,
            status: deployment.status.clone(),
            revision: None,
            now,
        }
    }

    /// Returns the ReplicaSet of the current template.
    pub(super) fn newest(&self) -> Option<&Member<'a>> {
        self.members.get(self.new?)
    }

    /// Indexes of ReplicaSets of earlier templates, oldest first.
    pub(super) fn old(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|at| Some(*at) != self.new).collect()
    }

    /// Indexes of ReplicaSets of earlier templates that should have pods, oldest first.
    pub(super) fn active_old(&self) -> Vec<usize> {
        self.old().into_iter().filter(|at| self.replicas_of(*at) > 0).collect()
    }

    pub(super) fn replicas_of(&self, at: usize) -> i64 {
        self.members.get(at).map_or(0, |member| member.replicas)
    }

    /// Returns the number of pods that all ReplicaSets together should have.
    pub(super) fn total_replicas(&self) -> i64 {
        self.members.iter().map(|member| member.replicas).sum()
    }

    /// Updates the annotations of the ReplicaSet of the current template, if it exists, and the revision of the
    /// Deployment.
    pub(super) fn sync_new(&mut self) {
        let next = self.next_revision();
        let deployment = self.deployment;
        let Some(new) = self.new.and_then(|new| self.members.get_mut(new)) else { return };
        new.annotations.append(&mut revision::missing_annotations(
            &deployment.metadata.annotations,
            &new.set.metadata.annotations,
            next,
        ));
        new.min_ready_seconds = deployment.spec.min_ready_seconds;
        let (name, revision) = (new.set.metadata.name.clone(), new.annotation(REVISION).map(Box::from));
        self.note_revision(revision);
        if status::has_deadline(deployment) && self.status.condition(status::PROGRESSING).is_none() {
            let message = format!("Found new replica set {name:?}");
            self.status.set(status::PROGRESSING, "True", "FoundNewReplicaSet", message, self.now);
        }
    }

    /// Adds the ReplicaSet of the current template.
    pub(super) fn create_new(&mut self) {
        let deployment = self.deployment;
        let next = self.next_revision();
        let digest = &deployment.spec.template.digest;
        let hash = revision::template_hash(digest, self.status.collision_count.unwrap_or(0));
        let mut set = ReplicaSet::default();
        set.metadata.name = revision::replica_set_name(&deployment.metadata.name, &hash).into();
        set.spec.replicas = Some(0);
        set.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
        let own = &set.metadata.annotations;
        let annotations = revision::missing_annotations(&deployment.metadata.annotations, own, next);
        let name = set.metadata.name.clone();
        self.new = Some(self.members.len());
        self.members.push(Member {
            set: Cow::Owned(set),
            replicas: 0,
            min_ready_seconds: deployment.spec.min_ready_seconds,
            annotations,
            hash: Some(hash.into()),
            is_deleted: false,
        });
        self.set_size(self.members.len() - 1, self.new_replicas());
        self.note_revision(Some(next.to_string().into()));
        if status::has_deadline(deployment) {
            let message = format!("Created new replica set {name:?}");
            self.status.set(status::PROGRESSING, "True", "NewReplicaSetCreated", message, self.now);
        }
    }

    fn note_revision(&mut self, revision: Option<Box<str>>) {
        let known = self.deployment.metadata.annotations.get(REVISION);
        self.revision = revision.filter(|revision| known != Some(revision));
    }

    fn next_revision(&self) -> i64 {
        let old = self.old().into_iter().filter_map(|at| self.members.get(at));
        old.filter_map(|member| revision::revision(&member.set.metadata.annotations)).max().unwrap_or(0) + 1
    }

    /// Sets the replicas of a ReplicaSet, and records the size of the Deployment in its annotations.
    pub(super) fn set_size(&mut self, at: usize, replicas: i64) {
        let (wanted, surge) = (self.deployment.replicas(), self.limits.surge);
        let Some(member) = self.members.get_mut(at) else { return };
        member.replicas = replicas;
        member.annotate(DESIRED_REPLICAS, wanted.to_string());
        member.annotate(MAX_REPLICAS, (wanted + surge).to_string());
    }

    /// Scales a ReplicaSet. Returns true if its size changes.
    pub(super) fn scale_to(&mut self, at: usize, replicas: i64) -> bool {
        let is_needed = self.replicas_of(at) != replicas;
        if is_needed {
            self.set_size(at, replicas);
        }
        is_needed
    }

    /// Deletes the oldest revisions above the history limit that have no pods.
    pub(super) fn clean_up(&mut self) {
        let limit = self.deployment.spec.revision_history_limit;
        let Some(limit) = limit.filter(|limit| *limit < i64::from(i32::MAX)) else { return };
        let is_alive =
            |at: &usize| self.members.get(*at).is_some_and(|one| !one.set.metadata.is_terminating());
        let mut old: Vec<usize> = self.old().into_iter().filter(is_alive).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|at| {
            let annotations = self.members.get(*at).map(|member| &member.set.metadata.annotations);
            annotations.and_then(revision::revision).unwrap_or(0)
        });
        for at in old.into_iter().take(surplus) {
            if let Some(member) = self.members.get_mut(at) {
                let set = &member.set;
                let is_observed = set.metadata.generation <= set.status.observed_generation;
                // One that this plan scales down may still have pods.
                member.is_deleted = is_observed && set.replicas() == 0 && set.status.replicas == 0;
                member.is_deleted &= member.replicas == 0;
            }
        }
    }

    fn finish(self, mode: Mode) -> Plan {
        let status = status::status(&self, mode);
        let requeue_after = match mode {
            Mode::Progress => status::until_deadline(self.deployment, &status, self.now),
            Mode::Counts => None,
        };
        let writes = self.members.into_iter().filter_map(Member::write);
        // A new ReplicaSet is the last member, but an old one is scaled down in its favour.
        let (created, changed): (Vec<Write>, Vec<Write>) =
            writes.partition(|write| matches!(write, Write::Create(_)));
        let writes = created.into_iter().chain(changed).collect();
        Plan { writes, status, revision: self.revision, requeue_after }
    }
}
