//! The StatefulSet controller on the model: it reads caches, plans, and writes with failures between any two writes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use client::Kind;

use super::cluster::ModelPod;
use super::reconcile::{Fate, Stop, controller, outcome};
use super::stateful_model::{
    ModelClaim, ModelRevision, StatefulCluster, UID, first_updated, range, set_owner,
};
use crate::controllers::stateful_set::claims::{Claim, Claims, Ownership, User, ownership};
use crate::controllers::stateful_set::identity::{labels, ordinal};
use crate::controllers::stateful_set::plan::{Input, NewPod, RevisionNames, Write, is_current, plan};
use crate::controllers::stateful_set::status::revision;
use crate::controllers::workloads::expectations::{Expectations, Expected};
use crate::controllers::workloads::history::{
    HASH_LABEL, POD_REVISION_LABEL, Revision, Update, data, hash, revision_name, surplus, update,
};
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::values::Rounding;
use crate::objects::{OwnerReference, StatefulSet, StringMap};

pub struct StatefulController {
    pub cluster: StatefulCluster,
    /// Whether requests fail and the controller crashes.
    pub is_stormy: bool,
    pub writes: usize,
    pods: Expectations,
    revisions: Expectations,
    start: Instant,
}

impl StatefulController {
    pub fn new(cluster: StatefulCluster) -> Self {
        let (pods, revisions) = (Expectations::default(), Expectations::default());
        Self { cluster, is_stormy: true, writes: 0, pods, revisions, start: Instant::now() }
    }

    fn clock(&self) -> Instant {
        self.start + Duration::try_from(self.cluster.since_start()).unwrap()
    }

    /// A restarted controller manager lists everything.
    pub fn restart(&mut self) {
        self.cluster.note("the controller restarts".to_owned());
        (self.pods, self.revisions) = (Expectations::default(), Expectations::default());
        self.cluster.pods.relist();
        self.cluster.claims.relist();
        self.cluster.revisions.relist();
    }

    /// The informers show some changes.
    pub fn follow(&mut self, most: usize) {
        for (name, _) in self.cluster.pods.follow(most) {
            self.pods.observe(UID, &name);
        }
        for (name, _) in self.cluster.revisions.follow(most) {
            self.revisions.observe(UID, &name);
        }
        self.cluster.claims.follow(most);
    }

    /// Something else happens between two requests.
    fn interrupt(&mut self) {
        if !self.is_stormy {
            return;
        }
        match self.cluster.chance.below(12) {
            0 => self.cluster.edit(),
            1 => drop(self.cluster.advance()),
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

    /// The fate of a request that is not refused.
    fn sent(&mut self) -> Result<Fate, Stop> {
        match self.fate() {
            Fate::Refused => Err(Stop::Retry),
            fate => Ok(fate),
        }
    }

    fn has_seen_own_writes(&mut self) -> bool {
        let (now, cluster) = (self.clock(), &self.cluster);
        for name in self.pods.overdue(UID, now) {
            let live = cluster.pods.truth.get(&*name);
            self.pods.confirm(UID, &name, live.map(ModelPod::seen), now);
        }
        for name in self.revisions.overdue(UID, now) {
            let live = cluster.revisions.truth.get(&*name);
            self.revisions.confirm(UID, &name, live.map(ModelRevision::seen), now);
        }
        let pods = self.pods.settle(UID, |name| cluster.pods.cache.get(name).map(ModelPod::seen));
        let seen = |name: &str| cluster.revisions.cache.get(name).map(ModelRevision::seen);
        self.revisions.settle(UID, seen) && pods
    }

    pub fn reconcile(&mut self) -> Result<(), Stop> {
        let (set, template) = (self.cluster.set.clone(), self.cluster.template.clone());
        if !self.has_seen_own_writes() {
            return Ok(());
        }
        self.interrupt();
        let pods = self.cluster.pods.cache.clone();
        let orphan = pods.values().find(|pod| pod.owner.is_none() && !pod.is_terminating);
        if let Some(orphan) = orphan {
            return self.adopt(&orphan.clone());
        }
        let own: Vec<Replica<'_>> =
            pods.values().filter(|pod| pod.is_owned_by(UID)).map(ModelPod::replica).collect();
        let cached = self.cluster.revisions.cache.clone();
        let known: Vec<Revision<'_>> = cached.values().map(ModelRevision::revision).collect();
        let update = self.record(&set, &template, &known)?;
        let is_known = known.iter().any(|one| *one.name == *set.status.current_revision);
        let current = if is_known { set.status.current_revision.to_string() } else { update.clone() };
        let names = RevisionNames { current: &current, update: &update };
        let claims = self.cluster.claims.cache.clone();
        let claims: Claims<'_> = claims
            .iter()
            .map(|(name, claim)| (name.as_str(), Claim { owners: &claim.owners, is_terminating: false }))
            .collect();
        let now = self.cluster.now();
        let plan = plan(&Input { set: &set, pods: &own, claims: &claims, revisions: names, now });
        let mut result = Ok(());
        for write in plan.phases.iter().flatten() {
            result = self.write(&set, names, write);
            if result.is_err() {
                break;
            }
        }
        if let Err(stop @ (Stop::Crash | Stop::Broken(_))) = result {
            return Err(stop);
        }
        if plan.status != set.status {
            let status = plan.status.clone();
            self.update_status(&set, |set| set.status = status)?;
        }
        let kept: HashSet<&str> = own.iter().map(revision).chain([names.current, names.update]).collect();
        for old in surplus(&known, &kept, set.spec.revision_history_limit) {
            let fate = self.sent()?;
            self.cluster.note(format!("deletes revision {}", old.name));
            self.cluster.revisions.remove(old.name);
            outcome(fate)?;
        }
        result
    }

    fn adopt(&mut self, orphan: &ModelPod) -> Result<(), Stop> {
        let fate = self.sent()?;
        let live = self.cluster.pods.truth.get(&orphan.name).filter(|live| live.uid == orphan.uid);
        if let Some(live) = live {
            let adopted = ModelPod { owner: Some(controller("StatefulSet", UID)), ..live.clone() };
            self.cluster.note(format!("adopts {}", orphan.name));
            self.cluster.pods.put(&orphan.name, adopted);
        }
        outcome(fate)
    }

    /// Makes the template the newest revision, and returns the name of the revision.
    fn record(
        &mut self,
        set: &StatefulSet,
        template: &serde_json::Value,
        known: &[Revision<'_>],
    ) -> Result<String, Stop> {
        match update(known, set.spec.template.digest) {
            Update::Current(revision) => Ok(revision.name.to_owned()),
            Update::Renumber { revision, number } => {
                let (uid, version) = (revision.uid.into(), revision.resource_version.into());
                let expected = Expected::Changed { uid, resource_version: version };
                self.revisions.expect(UID, revision.name, expected, self.clock());
                let fate = self.fate();
                let live = self.cluster.revisions.truth.get(revision.name);
                let live = live.filter(|live| live.version == revision.resource_version).cloned();
                let Some(mut live) = live.filter(|_| !matches!(fate, Fate::Refused)) else {
                    self.revisions.refused(UID, revision.name);
                    return Err(Stop::Retry);
                };
                (live.number, live.version) = (number, self.cluster.next());
                self.cluster.note(format!("renumbers {} to {number}", revision.name));
                self.cluster.revisions.put(revision.name, live);
                outcome(fate).map(|()| revision.name.to_owned())
            }
            Update::Create { number } => {
                let hash =
                    hash(&data(template, &Kind::STATEFUL_SET), set.status.collision_count.unwrap_or(0));
                let name = revision_name("web", &hash);
                self.revisions.expect(UID, &name, Expected::Created, self.clock());
                let fate = self.fate();
                let existing = self.cluster.revisions.truth.get(&name).map(|one| one.digest);
                if matches!(fate, Fate::Refused) || existing.is_some() {
                    self.revisions.refused(UID, &name);
                    if existing.is_some_and(|digest| digest != set.spec.template.digest) {
                        let count = set.status.collision_count.unwrap_or(0) + 1;
                        self.update_status(set, |set| set.status.collision_count = Some(count))?;
                    }
                    return if existing == Some(set.spec.template.digest) {
                        Ok(name)
                    } else {
                        Err(Stop::Retry)
                    };
                }
                if self.cluster.revisions.truth.values().any(|one| one.number == number) {
                    return Err(Stop::Broken(format!("two revisions have the number {number}")));
                }
                let revision = ModelRevision {
                    name: name.clone(),
                    uid: self.cluster.next(),
                    version: self.cluster.next(),
                    number,
                    digest: set.spec.template.digest,
                    created: self.cluster.now(),
                    labels: [(HASH_LABEL, &*hash)].into_iter().collect(),
                };
                self.cluster.note(format!("creates revision {name} {number}"));
                self.cluster.revisions.put(&name, revision);
                outcome(fate).map(|()| name)
            }
        }
    }

    fn write(&mut self, set: &StatefulSet, names: RevisionNames<'_>, write: &Write<'_>) -> Result<(), Stop> {
        match write {
            Write::Create(new) => self.create(set, names, new),
            Write::CreateClaims { claims, .. } => {
                claims.iter().try_for_each(|claim| self.create_claim(set, &claim.name))
            }
            Write::Relabel { name, uid, ordinal } => {
                let fate = self.sent()?;
                let live = self.cluster.pods.truth.get(*name).filter(|live| live.uid == *uid).cloned();
                let Some(mut live) = live else { return Err(Stop::Retry) };
                let known = live.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
                let new = labels(name, *ordinal).into_iter().map(|(key, value)| (key.to_owned(), value));
                live.labels = known.chain(new).collect::<Vec<(String, String)>>().into_iter().collect();
                self.cluster.pods.put(name, live);
                outcome(fate)
            }
            Write::OwnClaim { claim, user } => self.own_claim(set, claim, *user),
            Write::Delete { name, uid } => self.delete(set, names, name, uid),
        }
    }

    fn create_claim(&mut self, set: &StatefulSet, name: &str) -> Result<(), Stop> {
        let fate = self.sent()?;
        if !self.cluster.claims.truth.contains_key(name) {
            let user = User { name: name.trim_start_matches("data-"), uid: "", is_condemned: false };
            let owner = (ownership(set, user, &[]) == Ownership::Set).then(set_owner);
            let claim = ModelClaim {
                uid: self.cluster.next(),
                owners: owner.into_iter().collect(),
                version: self.cluster.next(),
            };
            self.cluster.note(format!("creates claim {name}"));
            self.cluster.claims.put(name, claim);
        }
        outcome(fate)
    }

    fn create(&mut self, set: &StatefulSet, names: RevisionNames<'_>, new: &NewPod) -> Result<(), Stop> {
        for claim in &new.claims {
            self.create_claim(set, &claim.name)?;
        }
        self.pods.expect(UID, &new.name, Expected::Created, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) || self.cluster.pods.truth.contains_key(&new.name) {
            self.pods.refused(UID, &new.name);
            return Err(Stop::Retry);
        }
        let unavailable = self.cluster.unavailable(set);
        let first = unavailable.first().copied();
        if !set.is_parallel() && !self.cluster.has_failing_pods && first != Some(new.ordinal) {
            return Err(Stop::Broken(format!("creates pod {} before {first:?}", new.ordinal)));
        }
        if new.is_current != (new.ordinal < first_updated(set)) || !range(set).contains(&new.ordinal) {
            return Err(Stop::Broken(format!("creates {new:?}")));
        }
        let (uid, name) = (self.cluster.next(), new.name.clone());
        let revision = if is_current(set, new.ordinal) { names.current } else { names.update };
        let identity = labels(&name, new.ordinal);
        let others = [("app", "web".to_owned()), (POD_REVISION_LABEL, revision.to_owned())];
        let labels: StringMap = others.into_iter().chain(identity).collect();
        self.cluster.note(format!("creates pod {name} of {revision}"));
        let pod = ModelPod {
            name: name.clone(),
            uid,
            labels,
            owner: Some(controller("StatefulSet", UID)),
            node: "",
            phase: Phase::Pending,
            is_terminating: false,
            is_ready: false,
            ready_changed: None,
            created: self.cluster.now(),
        };
        self.cluster.pods.put(&name, pod);
        outcome(fate)
    }

    fn own_claim(&mut self, set: &StatefulSet, name: &str, user: User<'_>) -> Result<(), Stop> {
        let Some(mut live) = self.cluster.claims.truth.get(name).cloned() else { return Ok(()) };
        let owner = match ownership(set, user, &live.owners) {
            Ownership::Keep => return Ok(()),
            Ownership::Release => None,
            Ownership::Set => Some(set_owner()),
            Ownership::Pod => Some(OwnerReference {
                api_version: "v1".into(),
                name: user.name.into(),
                ..controller("Pod", user.uid)
            }),
        };
        let in_range = ordinal("web", user.name).is_some_and(|ordinal| range(set).contains(&ordinal));
        let deletes = set.spec.persistent_volume_claim_retention_policy.deletes_when_scaled();
        let is_of_pod = owner.as_ref().is_some_and(|owner| &*owner.kind == "Pod");
        if is_of_pod && (in_range || !deletes) {
            return Err(Stop::Broken(format!("claim {name} would be deleted with its pod")));
        }
        let fate = self.sent()?;
        if self.cluster.claims.truth.get(name).is_none_or(|now| now.version != live.version) {
            return Err(Stop::Retry);
        }
        let is_other = |one: &&OwnerReference| &*one.uid != UID && *one.uid != *user.uid;
        live.owners = live.owners.iter().filter(is_other).cloned().chain(owner).collect();
        live.version = self.cluster.next();
        self.cluster.note(format!("claim {name} is owned by {:?}", live.owners));
        self.cluster.claims.put(name, live);
        outcome(fate)
    }

    fn delete(
        &mut self,
        set: &StatefulSet,
        names: RevisionNames<'_>,
        name: &str,
        uid: &str,
    ) -> Result<(), Stop> {
        self.pods.expect(UID, name, Expected::Deleted { uid: uid.into() }, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.pods.refused(UID, name);
            return Err(Stop::Retry);
        }
        let live = self.cluster.pods.truth.get(name).filter(|pod| pod.uid == uid && !pod.is_terminating);
        if let Some(live) = live.cloned() {
            self.check_deletion(set, names, &live)?;
            self.cluster.note(format!("deletes pod {name}"));
            self.cluster.pods.put(name, ModelPod { is_terminating: true, ..live });
        }
        outcome(fate)
    }

    /// A running pod is deleted only by scaling down or by an update, in order.
    fn check_deletion(
        &self,
        set: &StatefulSet,
        names: RevisionNames<'_>,
        pod: &ModelPod,
    ) -> Result<(), Stop> {
        let broken = |why: &str| Err(Stop::Broken(format!("deletes {}: {why}", pod.name)));
        let ordinal = ordinal("web", &pod.name).unwrap();
        let is_condemned = !range(set).contains(&ordinal);
        if pod.phase == Phase::Terminal {
            return Ok(());
        }
        if !is_condemned {
            if !set.is_rolling() || ordinal < first_updated(set) {
                return broken("the partition protects it");
            }
            if revision(&pod.replica()) == names.update {
                return broken("it is updated");
            }
        }
        if set.is_parallel() || self.cluster.has_failing_pods {
            return Ok(());
        }
        let unavailable = self.cluster.unavailable(set);
        if is_condemned {
            let own = self
                .cluster
                .pods
                .truth
                .values()
                .filter_map(|pod| crate::controllers::stateful_set::identity::ordinal("web", &pod.name));
            let last = own.filter(|ordinal| !range(set).contains(ordinal)).max();
            if !unavailable.is_empty() || last != Some(ordinal) {
                return broken(&format!("unavailable {unavailable:?}, last {last:?}"));
            }
            return Ok(());
        }
        let rolling = set.spec.update_strategy.rolling_update.as_ref();
        let limit = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let limit = limit.map_or(0, |limit| limit.scaled(set.replicas(), Rounding::Down)).max(1);
        if i64::try_from(unavailable.len()).unwrap() >= limit {
            return broken(&format!("{unavailable:?} are unavailable"));
        }
        Ok(())
    }

    fn update_status(
        &mut self,
        set: &StatefulSet,
        change: impl FnOnce(&mut StatefulSet),
    ) -> Result<(), Stop> {
        let fate = self.sent()?;
        if self.cluster.set.metadata.resource_version != set.metadata.resource_version {
            return Err(Stop::Retry);
        }
        change(&mut self.cluster.set);
        self.cluster.touch();
        outcome(fate)
    }
}
