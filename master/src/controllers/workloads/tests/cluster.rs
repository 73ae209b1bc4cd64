//! A model of an API server with informers that lag, a kubelet, and a user.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::controllers::workloads::expectations::Seen;
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::template::{POD_TEMPLATE_HASH, PodTemplate};
use crate::objects::{Deployment, IntOrString, ObjectMeta, OwnerReference, ReplicaSet, StringMap};

/// A seeded random generator.
pub struct Chance(fastrand::Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A random number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    /// True once in this many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

#[derive(Clone, Debug)]
pub struct ModelPod {
    pub name: String,
    pub uid: String,
    pub labels: StringMap,
    pub owner: Option<OwnerReference>,
    pub node: &'static str,
    pub phase: Phase,
    pub is_terminating: bool,
    pub is_ready: bool,
    pub ready_changed: Option<Timestamp>,
    pub created: Timestamp,
}

impl ModelPod {
    pub fn replica(&self) -> Replica<'_> {
        Replica {
            name: &self.name,
            uid: &self.uid,
            labels: &self.labels,
            controller: self.owner.as_ref(),
            node: self.node,
            phase: self.phase,
            is_terminating: self.is_terminating,
            is_ready: self.is_ready,
            ready_changed: self.ready_changed,
            deletion_cost: 0,
            restarts: (0, 0),
            created: Some(self.created),
        }
    }

    pub fn seen(&self) -> Seen<'_> {
        Seen { uid: &self.uid, resource_version: "", is_terminating: self.is_terminating }
    }

    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| *owner.uid == *uid)
    }
}

/// The objects of a kind, and a cache that follows their changes.
pub struct Kind<T> {
    pub truth: BTreeMap<String, T>,
    pub cache: BTreeMap<String, T>,
    changes: Vec<(String, Option<T>)>,
    applied: usize,
}

impl<T: Clone> Kind<T> {
    pub fn new() -> Self {
        Self { truth: BTreeMap::new(), cache: BTreeMap::new(), changes: Vec::new(), applied: 0 }
    }

    pub fn put(&mut self, name: &str, object: T) {
        self.truth.insert(name.to_owned(), object.clone());
        self.changes.push((name.to_owned(), Some(object)));
    }

    pub fn remove(&mut self, name: &str) {
        self.truth.remove(name);
        self.changes.push((name.to_owned(), None));
    }

    /// Applies some changes to the cache, and returns the objects that were shown.
    pub fn follow(&mut self, most: usize) -> Vec<(String, T)> {
        let mut shown = Vec::new();
        for (name, object) in self.changes.iter().skip(self.applied).take(most) {
            self.applied += 1;
            match object {
                Some(object) => {
                    self.cache.insert(name.clone(), object.clone());
                    shown.push((name.clone(), object.clone()));
                }
                None => drop(self.cache.remove(name)),
            }
        }
        shown
    }

    /// Lists again, as a restarted controller does.
    pub fn relist(&mut self) {
        self.cache = self.truth.clone();
        self.applied = self.changes.len();
    }

    pub fn is_current(&self) -> bool {
        self.applied == self.changes.len()
    }
}

pub struct Cluster {
    pub chance: Chance,
    pub seconds: i64,
    /// Whether pods fail or become unready without cause.
    pub has_failing_pods: bool,
    pub deployment: Deployment,
    pub sets: Kind<ReplicaSet>,
    pub pods: Kind<ModelPod>,
    counter: u64,
    pub log: Vec<String>,
}

/// The template with this image.
pub fn template(image: usize, hash: Option<&str>) -> PodTemplate {
    let mut template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image.to_string()}]}});
    if let Some(hash) = hash {
        template["metadata"]["labels"][POD_TEMPLATE_HASH] = hash.into();
    }
    template.into()
}

impl Cluster {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let metadata = ObjectMeta { name: "web".into(), uid: "d".into(), ..ObjectMeta::default() };
        let deployment = Deployment { metadata, ..Deployment::default() };
        let has_failing_pods = chance.once_in(3);
        let mut cluster = Self {
            chance,
            seconds: 0,
            has_failing_pods,
            deployment,
            sets: Kind::new(),
            pods: Kind::new(),
            counter: 0,
            log: Vec::new(),
        };
        let spec = &mut cluster.deployment.spec;
        spec.selector.match_labels = [("app", "web")].into_iter().collect();
        spec.progress_deadline_seconds = Some(if cluster.chance.once_in(2) { 600 } else { 40 });
        spec.revision_history_limit = Some(1);
        spec.min_ready_seconds = if cluster.chance.once_in(2) { 0 } else { 5 };
        spec.replicas = Some(3);
        cluster.edit_strategy();
        cluster.edit_template(0);
        cluster
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.seconds).unwrap()
    }

    pub fn next(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    pub fn note(&mut self, what: String) {
        self.log.push(format!("{:>4} {what}", self.seconds));
    }

    /// Stores a new version of the Deployment.
    pub fn touch(&mut self) {
        self.deployment.metadata.resource_version = self.next().into();
    }

    fn edited(&mut self, what: String) {
        self.deployment.metadata.generation += 1;
        self.touch();
        self.note(format!("the user {what}"));
    }

    fn edit_template(&mut self, image: usize) {
        self.deployment.spec.template = template(image, None);
        self.edited(format!("sets image {image}"));
    }

    fn edit_strategy(&mut self) {
        let is_recreate = self.chance.once_in(4);
        let (surge, unavailable) = (self.chance.below(3), self.chance.below(3));
        let strategy = &mut self.deployment.spec.strategy;
        strategy.r#type = if is_recreate { "Recreate" } else { "RollingUpdate" }.into();
        let number = |number: usize| Some(IntOrString::Int(i64::try_from(number).unwrap()));
        strategy.rolling_update.max_surge = number(surge);
        strategy.rolling_update.max_unavailable = number(unavailable);
        self.edited(format!(
            "sets the strategy: recreate {is_recreate}, surge {surge}, unavailable {unavailable}"
        ));
    }

    /// The user changes something.
    pub fn edit(&mut self) {
        match self.chance.below(6) {
            0 | 1 => {
                let image = self.chance.below(4);
                self.edit_template(image);
            }
            2 | 3 => {
                let replicas = self.chance.below(7);
                self.deployment.spec.replicas = Some(i64::try_from(replicas).unwrap());
                self.edited(format!("scales to {replicas}"));
            }
            4 => {
                self.deployment.spec.paused = !self.deployment.spec.paused;
                let is_paused = self.deployment.spec.paused;
                self.edited(format!("sets paused {is_paused}"));
            }
            _ if self.chance.once_in(4) => self.edit_strategy(),
            _ => {}
        }
    }

    pub fn resume(&mut self) {
        if self.deployment.spec.paused {
            self.deployment.spec.paused = false;
            self.edited("resumes".to_owned());
        }
    }

    /// The kubelet or the scheduler advances one pod. Returns true if there was anything to do.
    pub fn advance_pod(&mut self) -> bool {
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
            return true;
        }
        if pod.node.is_empty() {
            pod.node = ["m", "n"][self.chance.below(2)];
        } else {
            (pod.phase, pod.is_ready, pod.ready_changed) = (Phase::Running, true, Some(now));
            self.note(format!("pod {name} is ready"));
        }
        self.pods.put(&name, pod);
        true
    }

    /// A pod fails, becomes unready, or is deleted by the user.
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

    pub fn tick(&mut self, seconds: usize) {
        self.seconds += i64::try_from(seconds).unwrap();
    }

    /// Active pods that a ReplicaSet has.
    pub fn active(&self, uid: &str) -> usize {
        self.pods.truth.values().filter(|pod| pod.is_owned_by(uid) && pod.replica().is_active()).count()
    }

    /// Available pods that a ReplicaSet has, of those that it keeps.
    pub fn available(&self, set: &ReplicaSet) -> i64 {
        let min_ready = std::time::Duration::from_secs(u64::try_from(set.spec.min_ready_seconds).unwrap());
        let own = self.pods.truth.values().filter(|pod| pod.is_owned_by(&set.metadata.uid));
        let own = own.map(ModelPod::replica).filter(Replica::is_active);
        let available = own.filter(|pod| pod.is_available(min_ready, self.now())).count();
        i64::try_from(available).unwrap().min(set.replicas())
    }

    pub fn total_replicas(&self) -> i64 {
        self.sets.truth.values().filter(|set| is_of_deployment(set)).map(ReplicaSet::replicas).sum()
    }

    /// Pods that the ReplicaSets of the Deployment report as available, and keep.
    pub fn total_available(&self) -> i64 {
        let sets = self.sets.truth.values().filter(|set| is_of_deployment(set));
        sets.map(|set| set.status.available_replicas.min(set.replicas())).sum()
    }

    pub fn since_start(&self) -> SignedDuration {
        SignedDuration::from_secs(self.seconds)
    }
}

pub fn is_of_deployment(set: &ReplicaSet) -> bool {
    set.metadata.controller().is_some_and(|owner| &*owner.uid == "d")
}
