//! A model of a StatefulSet with its pods, claims and revisions, a kubelet, a garbage collector, and a user.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::{Chance, Kind, ModelPod};
use super::reconcile::controller;
use crate::controllers::stateful_set::identity::ordinal;
use crate::controllers::stateful_set::status::{is_available, revision};
use crate::controllers::workloads::expectations::Seen;
use crate::controllers::workloads::history::Revision;
use crate::controllers::workloads::replica::Phase;
use crate::objects::stateful_set::RollingUpdateStatefulSet;
use crate::objects::template::{PodTemplate, TemplateDigest};
use crate::objects::{IntOrString, List, ObjectMeta, OwnerReference, PartialObject, StatefulSet, StringMap};

/// The UID of the StatefulSet.
pub const UID: &str = "s";

#[derive(Clone, Debug)]
pub struct ModelClaim {
    pub uid: String,
    pub owners: List<OwnerReference>,
    pub version: String,
}

#[derive(Clone, Debug)]
pub struct ModelRevision {
    pub name: String,
    pub uid: String,
    pub version: String,
    pub number: i64,
    pub digest: TemplateDigest,
    pub created: Timestamp,
    pub labels: StringMap,
}

impl ModelRevision {
    pub fn seen(&self) -> Seen<'_> {
        Seen { uid: &self.uid, resource_version: &self.version, is_terminating: false }
    }

    pub fn revision(&self) -> Revision<'_> {
        Revision {
            name: &self.name,
            uid: &self.uid,
            resource_version: &self.version,
            labels: &self.labels,
            created: Some(self.created),
            number: self.number,
            template: Some(self.digest),
        }
    }
}

pub struct StatefulCluster {
    pub chance: Chance,
    pub seconds: i64,
    /// Whether pods fail, become unready or are deleted without cause.
    pub has_failing_pods: bool,
    pub set: StatefulSet,
    /// The template of the StatefulSet as JSON.
    pub template: Value,
    pub pods: Kind<ModelPod>,
    pub claims: Kind<ModelClaim>,
    pub revisions: Kind<ModelRevision>,
    counter: u64,
    pub log: Vec<String>,
}

fn template(image: usize) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image.to_string()}]}})
}

impl StatefulCluster {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let metadata = ObjectMeta { name: "web".into(), uid: UID.into(), ..ObjectMeta::default() };
        let mut set = StatefulSet { metadata, ..StatefulSet::default() };
        let has_failing_pods = chance.once_in(3);
        let spec = &mut set.spec;
        spec.selector.match_labels = [("app", "web")].into_iter().collect();
        spec.pod_management_policy = if chance.once_in(3) { "Parallel" } else { "OrderedReady" }.into();
        spec.min_ready_seconds = if chance.once_in(2) { 0 } else { 5 };
        spec.revision_history_limit = Some(1);
        spec.replicas = Some(3);
        let mut word = |times| if chance.once_in(times) { "Delete" } else { "Retain" }.into();
        let policy = &mut spec.persistent_volume_claim_retention_policy;
        (policy.when_deleted, policy.when_scaled) = (word(3), word(3));
        let mut claim = PartialObject::default();
        claim.metadata.name = "data".into();
        spec.volume_claim_templates = vec![claim].into();
        spec.update_strategy.r#type = "RollingUpdate".into();
        spec.update_strategy.rolling_update = Some(RollingUpdateStatefulSet::default());
        let mut cluster = Self {
            chance,
            seconds: 0,
            has_failing_pods,
            set,
            template: Value::Null,
            pods: Kind::new(),
            claims: Kind::new(),
            revisions: Kind::new(),
            counter: 0,
            log: Vec::new(),
        };
        cluster.edit_template(0);
        cluster
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    pub fn since_start(&self) -> SignedDuration {
        SignedDuration::from_secs(self.seconds)
    }

    pub fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    pub fn note(&mut self, what: String) {
        self.log.push(format!("{:>4} {what}", self.seconds));
    }

    /// Stores a new version of the StatefulSet.
    pub fn touch(&mut self) {
        self.set.metadata.resource_version = self.next().into();
    }

    fn edited(&mut self, what: String) {
        self.set.metadata.generation += 1;
        self.touch();
        self.note(format!("the user {what}"));
    }

    fn edit_template(&mut self, image: usize) {
        self.template = template(image);
        self.set.spec.template = PodTemplate::from(self.template.clone());
        self.edited(format!("sets image {image}"));
    }

    /// The user changes something.
    pub fn edit(&mut self) {
        let number = i64::try_from(self.chance.below(6)).unwrap();
        match self.chance.below(8) {
            0 | 1 => {
                let image = self.chance.below(4);
                self.edit_template(image);
            }
            2 | 3 => {
                self.set.spec.replicas = Some(number);
                self.edited(format!("scales to {number}"));
            }
            4 | 5 => {
                let limit = self.chance.below(3);
                let max_unavailable = Some(IntOrString::Int(i64::try_from(limit).unwrap()));
                self.set.spec.update_strategy.rolling_update = Some(RollingUpdateStatefulSet {
                    partition: Some(number),
                    max_unavailable: max_unavailable.filter(|_| limit > 0),
                });
                self.edited(format!("sets partition {number} and {limit} unavailable"));
            }
            6 if self.chance.once_in(3) => {
                self.set.spec.ordinals.start = number % 3;
                self.edited(format!("starts at {}", number % 3));
            }
            _ if self.chance.once_in(4) => {
                let kind = if self.set.is_rolling() { "OnDelete" } else { "RollingUpdate" };
                self.set.spec.update_strategy.r#type = kind.into();
                self.edited(format!("sets the strategy {kind}"));
            }
            _ => {}
        }
    }

    /// The kubelet, the scheduler or the garbage collector advances one pod. Returns true if there was anything to do.
    pub fn advance(&mut self) -> bool {
        if self.collect() {
            return true;
        }
        let is_due = |pod: &ModelPod| pod.is_terminating || (pod.phase != Phase::Terminal && !pod.is_ready);
        let due: Vec<String> =
            self.pods.truth.values().filter(|pod| is_due(pod)).map(|pod| pod.name.clone()).collect();
        if due.is_empty() {
            return false;
        }
        let name = due[self.chance.below(due.len())].clone();
        let mut pod = self.pods.truth[&name].clone();
        let now = self.now();
        if pod.is_terminating {
            self.note(format!("pod {name} ends"));
            self.pods.remove(&name);
        } else if pod.node.is_empty() {
            pod.node = "n";
            self.pods.put(&name, pod);
        } else {
            (pod.phase, pod.is_ready, pod.ready_changed) = (Phase::Running, true, Some(now));
            self.note(format!("pod {name} is ready"));
            self.pods.put(&name, pod);
        }
        true
    }

    /// The garbage collector deletes claims of pods that do not exist. Returns true if there were any.
    fn collect(&mut self) -> bool {
        let exists = |uid: &str| self.pods.truth.values().any(|pod| pod.uid == uid);
        let is_left = |owner: &OwnerReference| &*owner.kind == "Pod" && !exists(&owner.uid);
        let left = self.claims.truth.iter().filter(|(_, claim)| claim.owners.iter().any(is_left));
        let names: Vec<String> = left.map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.note(format!("claim {name} is collected"));
            self.claims.remove(name);
        }
        !names.is_empty()
    }

    /// A pod fails, becomes unready, or is deleted: its node is lost.
    pub fn break_pod(&mut self) {
        let names: Vec<String> = self.pods.truth.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = names[self.chance.below(names.len())].clone();
        let mut pod = self.pods.truth[&name].clone();
        let now = self.now();
        match self.chance.below(3) {
            0 => pod.is_terminating = true,
            1 => (pod.phase, pod.is_ready) = (Phase::Terminal, false),
            _ => (pod.is_ready, pod.ready_changed) = (false, Some(now)),
        }
        self.note(format!("pod {name} breaks: {:?}, terminating {}", pod.phase, pod.is_terminating));
        self.pods.put(&name, pod);
    }

    /// An orphan that the StatefulSet adopts.
    pub fn add_orphan(&mut self, name: &str) {
        let uid = self.next();
        let pod = ModelPod {
            name: name.to_owned(),
            uid,
            labels: [("app", "web")].into_iter().collect(),
            owner: None,
            node: "n",
            phase: Phase::Running,
            is_terminating: false,
            is_ready: true,
            ready_changed: Some(self.now()),
            created: self.now(),
        };
        self.pods.put(name, pod);
    }

    /// Ordinals in the range of the StatefulSet whose pods are not available.
    pub fn unavailable(&self, set: &StatefulSet) -> BTreeSet<i64> {
        let is_available = |ordinal: &i64| {
            let pod = self.pods.truth.get(&format!("web-{ordinal}"));
            pod.is_some_and(|pod| !pod.is_terminating && is_available(set, &pod.replica(), self.now()))
        };
        range(set).filter(|ordinal| !is_available(ordinal)).collect()
    }

    pub fn is_current(&self) -> bool {
        self.pods.is_current() && self.claims.is_current() && self.revisions.is_current()
    }

    /// Whether the goal is reached: pods, revisions, claims and status.
    pub fn check_goal(&self) -> Result<(), String> {
        let (set, status) = (&self.set, &self.set.status);
        let wanted = set.replicas();
        let own: Vec<&ModelPod> = self.pods.truth.values().filter(|pod| pod.is_owned_by(UID)).collect();
        let ordinals: Vec<i64> = own.iter().filter_map(|pod| ordinal("web", &pod.name)).collect();
        let mut expected: Vec<i64> = range(set).collect();
        // The map sorts names.
        expected.sort_by_key(ToString::to_string);
        if ordinals != expected || !self.unavailable(set).is_empty() {
            return Err(format!(
                "pods {ordinals:?} of {expected:?}, unavailable {:?}",
                self.unavailable(set)
            ));
        }
        let counts = [status.replicas, status.ready_replicas, status.available_replicas];
        if counts != [wanted; 3] || status.observed_generation != set.metadata.generation {
            return Err(format!("{status:?}"));
        }
        let newest = self.revisions.truth.values().max_by_key(|one| one.number).map(|one| &*one.name);
        if newest != Some(&*status.update_revision) {
            return Err(format!("the newest revision is {newest:?}: {status:?}"));
        }
        for pod in &own {
            let is_old = revision(&pod.replica()) != &*status.update_revision;
            let ordinal = ordinal("web", &pod.name).unwrap();
            if is_old && set.is_rolling() && ordinal >= first_updated(set) {
                return Err(format!("pod {} is not updated", pod.name));
            }
            let claim = self.claims.truth.get(&format!("data-{}", pod.name));
            let deletes = set.spec.persistent_volume_claim_retention_policy.deletes_with_set();
            if claim.is_none_or(|claim| claim.owners.iter().any(|owner| &*owner.uid == UID) != deletes) {
                return Err(format!("the claim of pod {}: {claim:?}", pod.name));
            }
        }
        let is_complete = set.is_rolling() && first_updated(set) <= set.spec.ordinals.start;
        if is_complete && status.current_revision != status.update_revision {
            return Err(format!("the update is not complete: {status:?}"));
        }
        let live: BTreeSet<&str> = own
            .iter()
            .map(|pod| revision(&pod.replica()).to_owned())
            .chain([status.current_revision.to_string(), status.update_revision.to_string()])
            .filter_map(|name| self.revisions.truth.get_key_value(&name).map(|(name, _)| name.as_str()))
            .collect();
        let old = self.revisions.truth.len() - live.len();
        if old > 1 { Err(format!("{old} old revisions")) } else { Ok(()) }
    }
}

pub fn range(set: &StatefulSet) -> std::ops::Range<i64> {
    let start = set.spec.ordinals.start;
    start..start + set.replicas()
}

/// The first ordinal that an update may reach.
pub fn first_updated(set: &StatefulSet) -> i64 {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    set.spec.ordinals.start + rolling.and_then(|rolling| rolling.partition).unwrap_or(0)
}

pub fn set_owner() -> OwnerReference {
    OwnerReference { api_version: "apps/v1".into(), name: "web".into(), ..controller("StatefulSet", UID) }
}
