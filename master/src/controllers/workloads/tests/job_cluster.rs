//! A model of an API server with one Job, informers that lag, a kubelet, and a user.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::cluster::{Chance, Kind};
use crate::controllers::fields::{Fields, JOB_TRACKING, JobPodFields, PodFields};
use crate::controllers::job::scaling::NewPod;
use crate::controllers::object::Object;
use crate::objects::{Job, OwnerReference};

/// How a pod must be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub succeeded: i64,
    pub failed: i64,
}

pub struct JobCluster {
    pub chance: Chance,
    pub seconds: i64,
    /// Whether pods fail or are deleted by the user.
    pub has_failing_pods: bool,
    pub job: Job,
    pub pods: Kind<Object>,
    /// What the status must count, from the pods whose finalizers were removed after they were counted.
    pub expected: Counts,
    /// Indexes with a pod that succeeded, by the name of the pod.
    pub succeeded_indexes: BTreeMap<u32, String>,
    counter: u64,
    pub log: Vec<String>,
}

impl JobCluster {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let is_indexed = chance.once_in(2);
        let completions = if !is_indexed && chance.once_in(3) { None } else { Some(chance.below(6)) };
        let limit = [0, 2, 6, 100][chance.below(4)];
        let mut spec = json!({
            "parallelism": chance.below(4), "completions": completions,
            "completionMode": if is_indexed { "Indexed" } else { "NonIndexed" },
            "backoffLimit": limit,
            "podReplacementPolicy": if chance.once_in(2) { "Failed" } else { "TerminatingOrFailed" },
            "suspend": chance.once_in(6),
        });
        if chance.once_in(4) {
            spec["activeDeadlineSeconds"] = json!(200);
        }
        if is_indexed && chance.once_in(2) {
            spec["backoffLimitPerIndex"] = json!(chance.below(2));
            spec["backoffLimit"] = json!(i32::MAX);
        }
        if is_indexed && chance.once_in(3) {
            spec["successPolicy"] = json!({"rules": [{"succeededCount": 1 + chance.below(3)}]});
        }
        let metadata = json!({"name": "pi", "uid": "j", "resourceVersion": "0"});
        let job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let has_failing_pods = !chance.once_in(3);
        Self {
            chance,
            seconds: 0,
            has_failing_pods,
            job,
            pods: Kind::new(),
            expected: Counts::default(),
            succeeded_indexes: BTreeMap::new(),
            counter: 0,
            log: vec![spec.to_string()],
        }
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

    /// Stores a new version of the Job.
    pub fn touch(&mut self) {
        self.job.metadata.resource_version = self.next().into();
    }

    /// Stores a new version of a pod.
    pub fn put(&mut self, mut pod: Object) {
        pod.resource_version = self.next();
        self.pods.put(&pod.name.clone(), pod);
    }

    pub fn create(&mut self, name: &str, new: NewPod) {
        let owner = OwnerReference {
            kind: "Job".into(),
            uid: "j".into(),
            controller: true,
            ..OwnerReference::default()
        };
        let job = JobPodFields {
            index: new.index,
            earlier_failures: new.earlier_failures.unwrap_or_default(),
            ..JobPodFields::default()
        };
        let fields = PodFields { phase: "Pending".into(), job: Some(Box::new(job)), ..PodFields::default() };
        let pod = Object {
            name: name.to_owned(),
            uid: self.next(),
            creation_timestamp: Some(self.now()),
            finalizers: vec![JOB_TRACKING.into()].into(),
            owners: vec![owner].into(),
            fields: Fields::Pod(fields),
            ..Object::default()
        };
        self.note(format!("creates pod {name} {new:?}"));
        self.put(pod);
    }

    /// Removes the finalizer of a pod. A pod that has ended and is being deleted is then gone.
    pub fn remove_finalizer(&mut self, name: &str) {
        let Some(mut pod) = self.pods.truth.get(name).cloned() else { return };
        pod.finalizers = Vec::new().into();
        self.note(format!("removes the finalizer of {name}"));
        if pod.is_terminating && pod.pod().is_terminal() {
            self.pods.remove(name);
        } else {
            self.put(pod);
        }
    }

    /// Deletes a pod: the kubelet then ends it.
    pub fn delete(&mut self, name: &str) {
        let Some(pod) = self.pods.truth.get(name).cloned() else { return };
        self.note(format!("pod {name} is deleted"));
        if pod.pod().is_terminal() && !pod.has_finalizer(JOB_TRACKING) {
            self.pods.remove(name);
        } else {
            self.put(Object { is_terminating: true, ..pod });
        }
    }

    /// The user changes the Job.
    pub fn edit(&mut self) {
        if self.job.is_finished() {
            return;
        }
        if self.chance.once_in(2) {
            self.job.spec.parallelism = Some(i64::try_from(self.chance.below(5)).unwrap());
        } else {
            self.job.spec.suspend = Some(!self.job.is_suspended());
        }
        let (parallelism, is_suspended) = (self.job.parallelism(), self.job.is_suspended());
        self.touch();
        self.note(format!("the user sets parallelism {parallelism}, suspend {is_suspended}"));
    }

    /// The user lets the Job run.
    pub fn let_run(&mut self) {
        self.job.spec.suspend = Some(false);
        self.job.spec.parallelism = Some(self.job.parallelism().max(1));
        self.touch();
    }

    /// The kubelet advances one pod. Returns true if there was anything to do.
    pub fn advance_pod(&mut self) -> bool {
        let due = self.pods.truth.values().filter(|pod| !pod.pod().is_terminal()).map(|pod| pod.name.clone());
        let due: Vec<String> = due.collect();
        if due.is_empty() {
            return false;
        }
        let mut pod = self.pods.truth[&due[self.chance.below(due.len())]].clone();
        let phase = if pod.is_terminating {
            if self.chance.once_in(4) { "Succeeded" } else { "Failed" }
        } else if &*pod.pod().phase == "Pending" {
            "Running"
        } else if self.has_failing_pods && self.chance.once_in(3) {
            "Failed"
        } else {
            "Succeeded"
        };
        self.set_phase(&mut pod, phase);
        true
    }

    fn set_phase(&mut self, pod: &mut Object, phase: &str) {
        let now = self.now();
        self.note(format!("pod {} is {phase}", pod.name));
        let is_end = phase != "Running";
        if let Fields::Pod(fields) = &mut pod.fields {
            fields.phase = phase.into();
            fields.is_ready = !is_end;
            if let Some(job) = fields.job.as_mut().filter(|_| is_end) {
                job.finished = Some(now);
            }
        }
        if is_end && pod.is_terminating && !pod.has_finalizer(JOB_TRACKING) {
            self.pods.remove(&pod.name);
        } else {
            self.put(pod.clone());
        }
    }

    /// The user deletes a pod.
    pub fn break_pod(&mut self) {
        let names: Vec<String> = self.pods.truth.keys().cloned().collect();
        if !names.is_empty() {
            let name = names[self.chance.below(names.len())].clone();
            self.delete(&name);
        }
    }

    /// Active pods, which are those that have not ended and are not being deleted.
    pub fn active(&self) -> impl Iterator<Item = &Object> {
        self.pods.truth.values().filter(|pod| !pod.pod().is_terminal() && !pod.is_terminating)
    }
}
