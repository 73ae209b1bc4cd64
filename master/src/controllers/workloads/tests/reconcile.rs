//! The two controllers on the model: they read caches, plan, and write with failures between any two writes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, ModelPod, is_of_deployment, template};
use crate::controllers::deployment::plan::{Change, Input, NewReplicaSet, Write};
use crate::controllers::deployment::{plan::plan as plan_deployment, strategy::Limits};
use crate::controllers::replica_set::plan::{Step, plan as plan_set};
use crate::controllers::replica_set::status::{Pods, status};
use crate::controllers::workloads::claim::{Candidate, Claim, Owner, claim};
use crate::controllers::workloads::expectations::{Expectations, Expected, Seen};
use crate::controllers::workloads::pod_writes::slow_start;
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::{ObjectMeta, OwnerReference, ReplicaSet};

/// Why a reconciliation ended early.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The controller retries.
    Retry,
    /// The controller manager has crashed.
    Crash,
    /// An invariant does not hold.
    Broken(String),
}

/// What happens to a request.
pub enum Fate {
    Answered,
    Refused,
    /// The request was applied, and the answer is lost.
    Lost,
    /// The controller crashes after the request was applied.
    Crash,
}

pub struct Controllers {
    pub cluster: Cluster,
    /// Whether requests fail and controllers crash.
    pub is_stormy: bool,
    pub writes: usize,
    expectations: Expectations,
    deployment_expectations: Expectations,
    start: Instant,
}

impl Controllers {
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            is_stormy: true,
            writes: 0,
            expectations: Expectations::default(),
            deployment_expectations: Expectations::default(),
            start: Instant::now(),
        }
    }

    fn clock(&self) -> Instant {
        self.start + Duration::try_from(self.cluster.since_start()).unwrap()
    }

    /// A restarted controller manager lists everything.
    pub fn restart(&mut self) {
        self.cluster.note("the controllers restart".to_owned());
        self.expectations = Expectations::default();
        self.deployment_expectations = Expectations::default();
        self.cluster.pods.relist();
        self.cluster.sets.relist();
    }

    /// The informers show some changes.
    pub fn follow(&mut self, most: usize) {
        for (name, pod) in self.cluster.pods.follow(most) {
            if let Some(owner) = &pod.owner {
                self.expectations.observe(&owner.uid, &name);
            }
        }
        for (name, _) in self.cluster.sets.follow(most) {
            self.deployment_expectations.observe("d", &name);
        }
    }

    /// Something else happens between two requests.
    fn interrupt(&mut self) {
        if !self.is_stormy {
            return;
        }
        match self.cluster.chance.below(12) {
            0 => self.cluster.edit(),
            1 => drop(self.cluster.advance_pod()),
            2 => self.follow(1),
            3 if self.cluster.has_failing_pods => self.cluster.break_pod(),
            _ => {}
        }
    }

    fn fate(&mut self) -> Fate {
        self.interrupt();
        self.writes += 1;
        match self.cluster.chance.below(60) {
            0 if self.is_stormy => Fate::Crash,
            1 if self.is_stormy => Fate::Lost,
            2 if self.is_stormy => Fate::Refused,
            _ => Fate::Answered,
        }
    }

    pub fn reconcile_set(&mut self, name: &str) -> Result<(), Stop> {
        let Some(set) = self.cluster.sets.truth.get(name).cloned() else { return Ok(()) };
        let uid = set.metadata.uid.to_string();
        let now = self.clock();
        for overdue in self.expectations.overdue(&uid, now) {
            let live = self.cluster.pods.truth.get(&*overdue).cloned();
            self.expectations.confirm(&uid, &overdue, live.as_ref().map(ModelPod::seen), now);
        }
        let cached = self.cluster.pods.cache.clone();
        if !self.expectations.settle(&uid, |name| cached.get(name).map(ModelPod::seen)) {
            return Ok(());
        }
        self.interrupt();
        let cached = self.cluster.pods.cache.clone();
        let owner =
            Owner { uid: &uid, is_terminating: set.metadata.is_terminating(), selector: &set.spec.selector };
        let mut own: Vec<&ModelPod> = Vec::new();
        for pod in cached.values() {
            let replica = pod.replica();
            let candidate = Candidate {
                controller: replica.controller,
                labels: replica.labels,
                is_terminating: replica.is_terminating,
            };
            match claim(owner, candidate) {
                Claim::Keep => own.push(pod),
                Claim::Adopt if replica.is_active() => {
                    self.adopt(pod, &uid)?;
                    own.push(pod);
                }
                Claim::Adopt | Claim::Ignore => {}
                Claim::Release => return Err(Stop::Broken(format!("{name} releases {}", pod.name))),
            }
        }
        let active: Vec<Replica<'_>> =
            own.iter().map(|pod| pod.replica()).filter(Replica::is_active).collect();
        let terminating = own.len() - own.iter().filter(|pod| !pod.is_terminating).count();
        let result = match plan_set(set.replicas(), &active, &active, self.cluster.now()) {
            Step::Nothing => Ok(()),
            Step::Create(count) => self.create_pods(&set, count),
            Step::Delete(to_delete) => {
                let names: Vec<(String, String)> =
                    to_delete.iter().map(|pod| (pod.name.to_owned(), pod.uid.to_owned())).collect();
                self.delete_pods(&set, &names)
            }
        };
        if let Err(stop @ (Stop::Crash | Stop::Broken(_))) = result {
            return Err(stop);
        }
        let pods = Pods { active: &active, terminating: Some(terminating) };
        let status = status(&set, pods, None, self.cluster.now());
        if status != set.status {
            self.update_set(name, &set.metadata.resource_version, |set| set.status = status.clone())?;
        }
        result
    }

    fn adopt(&mut self, pod: &ModelPod, owner: &str) -> Result<(), Stop> {
        let fate = self.fate();
        let Some(mut live) =
            self.cluster.pods.truth.get(&pod.name).filter(|live| live.uid == pod.uid).cloned()
        else {
            return Err(Stop::Retry);
        };
        if matches!(fate, Fate::Refused) {
            return Err(Stop::Retry);
        }
        live.owner = Some(controller("ReplicaSet", owner));
        self.cluster.pods.put(&pod.name.clone(), live);
        outcome(fate)
    }

    fn create_pods(&mut self, set: &ReplicaSet, count: usize) -> Result<(), Stop> {
        for batch in slow_start(count) {
            let mut result = Ok(());
            for _ in 0..batch {
                result = result.and(self.create_pod(set));
            }
            result?;
        }
        Ok(())
    }

    fn create_pod(&mut self, set: &ReplicaSet) -> Result<(), Stop> {
        let uid = self.cluster.next();
        let (name, owner) = (format!("{}-{uid}", set.metadata.name), set.metadata.uid.clone());
        self.expectations.expect(&owner, &name, Expected::Created, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.expectations.refused(&owner, &name);
            return Err(Stop::Retry);
        }
        let pod = ModelPod {
            name: name.clone(),
            uid,
            labels: set.spec.template.labels.clone(),
            owner: Some(controller("ReplicaSet", &owner)),
            node: "",
            phase: Phase::Pending,
            is_terminating: false,
            is_ready: false,
            ready_changed: None,
            created: self.cluster.now(),
        };
        self.cluster.note(format!("{} creates pod {name}", set.metadata.name));
        self.cluster.pods.put(&name, pod);
        let (active, wanted) = (self.cluster.active(&owner), set.replicas());
        if i64::try_from(active).unwrap() > wanted {
            return Err(Stop::Broken(format!("{} has {active} pods of {wanted}", set.metadata.name)));
        }
        outcome(fate)
    }

    fn delete_pods(&mut self, set: &ReplicaSet, to_delete: &[(String, String)]) -> Result<(), Stop> {
        let mut result = Ok(());
        for (name, uid) in to_delete {
            let owner = set.metadata.uid.clone();
            let expected = Expected::Deleted { uid: uid.as_str().into() };
            self.expectations.expect(&owner, name, expected, self.clock());
            let fate = self.fate();
            if matches!(fate, Fate::Refused) {
                self.expectations.refused(&owner, name);
                result = result.and(Err(Stop::Retry));
                continue;
            }
            if let Some(pod) = self.cluster.pods.truth.get(name).filter(|pod| pod.uid == *uid) {
                let pod = ModelPod { is_terminating: true, ..pod.clone() };
                self.cluster.note(format!("{} deletes pod {name}", set.metadata.name));
                self.cluster.pods.put(name, pod);
            }
            let (active, wanted) = (self.cluster.active(&owner), set.replicas());
            if !self.cluster.has_failing_pods && i64::try_from(active).unwrap() < wanted {
                return Err(Stop::Broken(format!("{} keeps {active} pods of {wanted}", set.metadata.name)));
            }
            match outcome(fate) {
                crash @ Err(Stop::Crash) => return crash,
                other => result = result.and(other),
            }
        }
        result
    }

    pub fn reconcile_deployment(&mut self) -> Result<Option<Duration>, Stop> {
        let deployment = self.cluster.deployment.clone();
        let now = self.clock();
        for overdue in self.deployment_expectations.overdue("d", now) {
            let live = self.cluster.sets.truth.get(&*overdue).cloned();
            self.deployment_expectations.confirm("d", &overdue, live.as_ref().map(seen), now);
        }
        let sets = self.cluster.sets.cache.clone();
        if !self.deployment_expectations.settle("d", |name| sets.get(name).map(seen)) {
            return Ok(None);
        }
        self.interrupt();
        let (sets, pods) = (self.cluster.sets.cache.clone(), self.cluster.pods.cache.clone());
        let owner = Owner { uid: "d", is_terminating: false, selector: &deployment.spec.selector };
        let mut own: Vec<&ReplicaSet> = Vec::new();
        for set in sets.values() {
            let metadata = &set.metadata;
            let candidate = Candidate {
                controller: metadata.controller(),
                labels: &metadata.labels,
                is_terminating: metadata.is_terminating(),
            };
            match claim(owner, candidate) {
                Claim::Keep => own.push(set),
                Claim::Ignore => {}
                Claim::Adopt => {
                    let reference = controller("Deployment", "d");
                    self.update_set(&metadata.name, &metadata.resource_version, |set| {
                        set.metadata.owner_references = [reference.clone()].into_iter().collect();
                    })?;
                    return Err(Stop::Retry);
                }
                Claim::Release => return Err(Stop::Broken(format!("releases {}", metadata.name))),
            }
        }
        let with_pods: HashSet<&str> = pods
            .values()
            .filter(|pod| pod.phase != Phase::Terminal)
            .filter_map(|pod| pod.owner.as_ref().map(|owner| &*owner.uid))
            .collect();
        let now = self.cluster.now();
        let plan = plan_deployment(Input { deployment: &deployment, sets: &own, with_pods: &with_pods, now });
        let limits = Limits::of(&deployment);
        // A paused or scaled Deployment divides its pods by size alone, as in the stock controller.
        let replicas = deployment.replicas().to_string();
        let is_rescaled = own.iter().filter(|set| set.replicas() > 0).any(|set| {
            let sized_for = set.metadata.annotations.get("deployment.kubernetes.io/desired-replicas");
            sized_for.is_some_and(|sized_for| sized_for != replicas)
        });
        let was_scaled = deployment.spec.paused || is_rescaled;
        for write in &plan.writes {
            let before = (self.cluster.total_replicas(), self.cluster.total_available());
            match write {
                Write::Create(new) => self.create_set(new, &deployment)?,
                Write::Change(change) => self.change_set(change)?,
                Write::Delete { name, uid, resource_version } => {
                    self.delete_set(name, uid, resource_version)?;
                }
            }
            self.check_limits(before, limits, &deployment, was_scaled)?;
        }
        if plan.status != deployment.status || plan.revision.is_some() {
            let fate = self.fate();
            let has_changed =
                self.cluster.deployment.metadata.resource_version != deployment.metadata.resource_version;
            if has_changed || matches!(fate, Fate::Refused) {
                return Err(Stop::Retry);
            }
            self.cluster.deployment.status = plan.status;
            if let Some(revision) = plan.revision {
                let annotations = [("deployment.kubernetes.io/revision", revision)];
                self.cluster.deployment.metadata.annotations = annotations.into_iter().collect();
            }
            self.cluster.touch();
            outcome(fate)?;
        }
        Ok(plan.requeue_after)
    }

    /// A write of the deployment controller exceeds neither surge nor unavailability.
    fn check_limits(
        &self,
        (before, available_before): (i64, i64),
        limits: Limits,
        deployment: &crate::objects::Deployment,
        was_scaled: bool,
    ) -> Result<(), Stop> {
        let (total, wanted) = (self.cluster.total_replicas(), deployment.replicas());
        if total > before && total > wanted + limits.surge {
            return Err(Stop::Broken(format!("{total} replicas of {wanted} + {}", limits.surge)));
        }
        let is_rolling = &*deployment.spec.strategy.r#type == "RollingUpdate";
        let available = self.cluster.total_available();
        let is_too_few = available < available_before && available < wanted - limits.unavailable;
        if is_rolling && !was_scaled && !self.cluster.has_failing_pods && is_too_few {
            return Err(Stop::Broken(format!(
                "{available} pods stay available of {wanted} - {}; cached: {:?}; live: {:?}",
                limits.unavailable,
                self.cluster.sets.cache.values().map(sizes).collect::<Vec<_>>(),
                self.cluster.sets.truth.values().map(sizes).collect::<Vec<_>>(),
            )));
        }
        Ok(())
    }

    fn create_set(
        &mut self,
        new: &NewReplicaSet,
        deployment: &crate::objects::Deployment,
    ) -> Result<(), Stop> {
        self.deployment_expectations.expect("d", &new.name, Expected::Created, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.deployment_expectations.refused("d", &new.name);
            return Err(Stop::Retry);
        }
        if let Some(there) = self.cluster.sets.truth.get(&*new.name) {
            self.deployment_expectations.refused("d", &new.name);
            let is_own =
                is_of_deployment(there) && there.spec.template.digest == deployment.spec.template.digest;
            if !is_own
                && self.cluster.deployment.metadata.resource_version == deployment.metadata.resource_version
            {
                let count = deployment.status.collision_count.unwrap_or(0) + 1;
                self.cluster.deployment.status.collision_count = Some(count);
                self.cluster.touch();
            }
            return Err(Stop::Retry);
        }
        if &*deployment.spec.strategy.r#type == "Recreate" {
            let old = self.cluster.pods.truth.values().find(|pod| {
                pod.phase != Phase::Terminal
                    && pod.owner.as_ref().is_some_and(|owner| &*owner.uid != "foreign")
            });
            if let Some(old) = old {
                return Err(Stop::Broken(format!("pod {} exists beside new ones", old.name)));
            }
        }
        let metadata = ObjectMeta {
            name: new.name.clone(),
            uid: self.cluster.next().into(),
            resource_version: self.cluster.next().into(),
            generation: 1,
            creation_timestamp: Some(self.cluster.now()),
            owner_references: [controller("Deployment", "d")].into_iter().collect(),
            annotations: new.annotations.clone().into_iter().collect(),
            ..ObjectMeta::default()
        };
        let mut set: ReplicaSet = ReplicaSet { metadata, ..ReplicaSet::default() };
        let image =
            (0..4).find(|image| template(*image, None).digest == deployment.spec.template.digest).unwrap();
        set.spec.template = template(image, Some(&new.hash));
        set.metadata.labels = set.spec.template.labels.clone();
        set.spec.selector.match_labels = set.spec.template.labels.clone();
        set.spec.replicas = Some(new.replicas);
        set.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
        self.cluster.note(format!("creates {} with {}", new.name, new.replicas));
        self.cluster.sets.put(&new.name, set);
        outcome(fate)
    }

    fn change_set(&mut self, change: &Change) -> Result<(), Stop> {
        let (uid, resource_version) = (change.uid.clone(), change.resource_version.clone());
        let expected = Expected::Changed { uid, resource_version };
        self.deployment_expectations.expect("d", &change.name, expected, self.clock());
        let version = |cluster: &Cluster| {
            cluster.sets.truth.get(&*change.name).map(|set| set.metadata.resource_version.clone())
        };
        let before = version(&self.cluster);
        let result = self.update_set(&change.name, &change.resource_version, |set| {
            if let Some((_, to)) = change.scale {
                set.spec.replicas = Some(to);
            }
            if let Some(seconds) = change.min_ready_seconds {
                set.spec.min_ready_seconds = seconds;
            }
            if change.scale.is_some() || change.min_ready_seconds.is_some() {
                set.metadata.generation += 1;
            }
            let known = set.metadata.annotations.iter().map(|(key, value)| (key.into(), value.into()));
            let new = change.annotations.iter().map(|(key, value)| (key.clone(), value.clone()));
            set.metadata.annotations =
                known.chain(new).collect::<Vec<(Box<str>, Box<str>)>>().into_iter().collect();
        });
        if version(&self.cluster) == before {
            self.deployment_expectations.refused("d", &change.name);
        }
        if let Some((from, to)) = change.scale {
            self.cluster.note(format!("scales {} from {from} to {to}: {result:?}", change.name));
        }
        result
    }

    fn delete_set(&mut self, name: &str, uid: &str, resource_version: &str) -> Result<(), Stop> {
        let fate = self.fate();
        let live = self.cluster.sets.truth.get(name);
        let is_there = live.is_some_and(|set| {
            &*set.metadata.uid == uid && &*set.metadata.resource_version == resource_version
        });
        if !is_there || matches!(fate, Fate::Refused) {
            return Err(Stop::Retry);
        }
        if self.cluster.active(uid) > 0 {
            return Err(Stop::Broken(format!("deletes {name}, which has pods")));
        }
        self.cluster.note(format!("deletes {name}"));
        self.cluster.sets.remove(name);
        outcome(fate)
    }

    fn update_set(
        &mut self,
        name: &str,
        resource_version: &str,
        change: impl Fn(&mut ReplicaSet),
    ) -> Result<(), Stop> {
        let fate = self.fate();
        let live = self
            .cluster
            .sets
            .truth
            .get(name)
            .filter(|live| &*live.metadata.resource_version == resource_version);
        let Some(mut set) = live.cloned().filter(|_| !matches!(fate, Fate::Refused)) else {
            return Err(Stop::Retry);
        };
        change(&mut set);
        set.metadata.resource_version = self.cluster.next().into();
        self.cluster.sets.put(name, set);
        outcome(fate)
    }
}

pub fn outcome(fate: Fate) -> Result<(), Stop> {
    match fate {
        Fate::Answered => Ok(()),
        Fate::Refused | Fate::Lost => Err(Stop::Retry),
        Fate::Crash => Err(Stop::Crash),
    }
}

fn seen(set: &ReplicaSet) -> Seen<'_> {
    let metadata = &set.metadata;
    Seen {
        uid: &metadata.uid,
        resource_version: &metadata.resource_version,
        is_terminating: metadata.is_terminating(),
    }
}

pub fn controller(kind: &str, uid: &str) -> OwnerReference {
    OwnerReference { kind: kind.into(), uid: uid.into(), controller: true, ..OwnerReference::default() }
}

/// Name, generation, observed generation, replicas and available replicas of a ReplicaSet.
fn sizes(set: &ReplicaSet) -> (&str, i64, i64, i64, i64) {
    let (metadata, status) = (&set.metadata, &set.status);
    (
        &metadata.name,
        metadata.generation,
        status.observed_generation,
        set.replicas(),
        status.available_replicas,
    )
}
