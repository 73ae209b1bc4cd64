//! The Job controller on the model: it reads caches, plans, and writes with failures between any two writes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::job_cluster::JobCluster;
use super::reconcile::{Fate, Stop, outcome};
use crate::controllers::fields::JOB_TRACKING;
use crate::controllers::job::backoff::Backoff;
use crate::controllers::job::plan::{Input, plan};
use crate::controllers::job::pod::JobPod;
use crate::controllers::job::scaling::{NewPod, Step};
use crate::controllers::object::Object;
use crate::controllers::workloads::expectations::{Expectations, Expected};
use crate::controllers::workloads::requests::seen;
use crate::objects::Job;
use crate::objects::job::JobStatus;

const OWNER: &str = "j";

pub struct JobRunner {
    pub cluster: JobCluster,
    /// Whether requests fail and the controller crashes.
    pub is_stormy: bool,
    pub writes: usize,
    expectations: Expectations,
    backoff: Option<Backoff>,
    start: Instant,
}

/// A change of pods, without references to them.
enum Change {
    Create(NewPod),
    Delete { name: String, uid: String, uncounted_at: Option<String> },
}

impl JobRunner {
    pub fn new(cluster: JobCluster) -> Self {
        Self {
            cluster,
            is_stormy: true,
            writes: 0,
            expectations: Expectations::default(),
            backoff: None,
            start: Instant::now(),
        }
    }

    fn clock(&self) -> Instant {
        self.start + Duration::from_secs(u64::try_from(self.cluster.seconds).unwrap())
    }

    /// A restarted controller manager lists everything.
    pub fn restart(&mut self) {
        self.cluster.note("the controller restarts".to_owned());
        self.expectations = Expectations::default();
        self.backoff = None;
        self.cluster.pods.relist();
    }

    /// The informers show some changes.
    pub fn follow(&mut self, most: usize) {
        for (name, _) in self.cluster.pods.follow(most) {
            self.expectations.observe(OWNER, &name);
        }
    }

    fn interrupt(&mut self) {
        if !self.is_stormy {
            return;
        }
        match self.cluster.chance.below(14) {
            0 => self.cluster.edit(),
            1 => drop(self.cluster.advance_pod()),
            2 | 3 => self.follow(1),
            4 if self.cluster.has_failing_pods => self.cluster.break_pod(),
            _ => {}
        }
    }

    fn fate(&mut self) -> Fate {
        self.interrupt();
        self.writes += 1;
        match self.cluster.chance.below(30) {
            0 if self.is_stormy => Fate::Crash,
            1 if self.is_stormy => Fate::Lost,
            2 if self.is_stormy => Fate::Refused,
            _ => Fate::Answered,
        }
    }

    pub fn reconcile(&mut self) -> Result<(), Stop> {
        let job = self.cluster.job.clone();
        if job.is_finished() {
            return Ok(());
        }
        let now = self.clock();
        for overdue in self.expectations.overdue(OWNER, now) {
            let live = self.cluster.pods.truth.get(&*overdue).cloned();
            self.expectations.confirm(OWNER, &overdue, live.as_ref().map(seen), now);
        }
        let cached = self.cluster.pods.cache.clone();
        if !self.expectations.settle(OWNER, |name| cached.get(name).map(seen)) {
            return Ok(());
        }
        self.interrupt();
        let mut pods: Vec<Object> = self.cluster.pods.cache.values().cloned().collect();
        let uncounted = &job.status.uncounted_terminated_pods;
        let uncounted: Vec<String> =
            uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| uid.to_string()).collect();
        if !uncounted.iter().all(|uid| pods.iter().any(|pod| pod.uid == *uid)) {
            pods = self.cluster.pods.truth.values().cloned().collect();
        }
        let mut confirmed: HashSet<String> = uncounted.into_iter().collect();
        loop {
            let views: Vec<JobPod<'_>> = pods.iter().map(|pod| JobPod::of(pod).unwrap()).collect();
            let now = self.cluster.now();
            let plan = plan(Input { job: &job, pods: &views, backoff: self.backoff, now });
            let unconfirmed: Vec<String> = plan
                .release
                .iter()
                .filter(|pod| !confirmed.contains(pod.uid()))
                .map(|pod| pod.replica.name.to_owned())
                .collect();
            if unconfirmed.is_empty() {
                break;
            }
            self.interrupt();
            let truth = &self.cluster.pods.truth;
            pods.retain(|pod| !unconfirmed.contains(&pod.name) || truth.contains_key(&pod.name));
            for pod in pods.iter_mut().filter(|pod| unconfirmed.contains(&pod.name)) {
                *pod = truth[&pod.name].clone();
                confirmed.insert(pod.uid.clone());
            }
        }
        self.carry_out(&job, &pods)
    }

    fn carry_out(&mut self, job: &Job, pods: &[Object]) -> Result<(), Stop> {
        let views: Vec<JobPod<'_>> = pods.iter().map(|pod| JobPod::of(pod).unwrap()).collect();
        let plan = plan(Input { job, pods: &views, backoff: self.backoff, now: self.cluster.now() });
        let mut version = job.metadata.resource_version.to_string();
        let written = self.write_status(&mut version, &job.status, &plan.status);
        if !matches!(written, Err(Stop::Retry)) {
            self.backoff = Some(plan.backoff);
        }
        written?;
        let (mut tracked, mut result): (HashSet<&str>, _) =
            (views.iter().filter(|pod| pod.is_tracked).map(JobPod::uid).collect(), Ok(()));
        for pod in &plan.release {
            match self.release(job, pod) {
                Ok(()) => drop(tracked.remove(pod.uid())),
                Err(Stop::Retry) => result = Err(Stop::Retry),
                Err(stop) => return Err(stop),
            }
        }
        let status = plan.conclude(&tracked, self.cluster.now());
        let is_finished = status.is_true("Complete") || status.is_true("Failed");
        if is_finished
            && let Some(pod) = self.cluster.pods.truth.values().find(|pod| !pod.pod().is_terminal())
        {
            return Err(Stop::Broken(format!("the Job finishes before pod {} has terminated", pod.name)));
        }
        self.write_status(&mut version, &plan.status, &status)?;
        result?;
        let deletions = |pods: &[&JobPod<'_>], is_uncounted: bool| {
            let change = |pod: &&JobPod<'_>| Change::Delete {
                name: pod.replica.name.to_owned(),
                uid: pod.uid().to_owned(),
                uncounted_at: (is_uncounted && pod.is_tracked).then(|| pod.resource_version.to_owned()),
            };
            pods.iter().map(change).collect::<Vec<_>>()
        };
        let changes: Vec<Change> = match &plan.step {
            Step::Nothing => Vec::new(),
            Step::Create(new) => new.iter().copied().map(Change::Create).collect(),
            Step::DeleteCounted(pods) => deletions(pods, false),
            Step::DeleteUncounted(pods) => deletions(pods, true),
        };
        let mut result = Ok(());
        for change in changes {
            let done = match change {
                Change::Create(new) => self.create_pod(job, new),
                Change::Delete { name, uid, uncounted_at } => {
                    self.delete_pod(&name, &uid, uncounted_at.as_deref())
                }
            };
            match done {
                Err(Stop::Retry) => result = Err(Stop::Retry),
                other => other?,
            }
        }
        result
    }

    fn write_status(
        &mut self,
        version: &mut String,
        before: &JobStatus,
        status: &JobStatus,
    ) -> Result<(), Stop> {
        if before == status {
            return Ok(());
        }
        let fate = self.fate();
        if *self.cluster.job.metadata.resource_version != **version || matches!(fate, Fate::Refused) {
            return Err(Stop::Retry);
        }
        let known = &self.cluster.job.status;
        let is_elastic = self.cluster.job.is_indexed();
        if status.failed < known.failed || (!is_elastic && status.succeeded < known.succeeded) {
            return Err(Stop::Broken(format!("a counter decreases: {status:?}")));
        }
        self.cluster.job.status = status.clone();
        self.cluster.touch();
        *version = self.cluster.job.metadata.resource_version.to_string();
        self.cluster.note(format!("writes {}", status.to_json()));
        outcome(fate)
    }

    /// Removes the finalizer of a counted pod, and notes how it must be counted.
    fn release(&mut self, job: &Job, pod: &JobPod<'_>) -> Result<(), Stop> {
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            return Err(Stop::Retry);
        }
        let name = pod.replica.name;
        let Some(live) = self.cluster.pods.truth.get(name).filter(|live| live.uid == pod.uid()).cloned()
        else {
            return outcome(fate);
        };
        if live.has_finalizer(JOB_TRACKING) {
            self.count(job, pod, &live)?;
            self.cluster.remove_finalizer(name);
        }
        outcome(fate)
    }

    /// Notes how a pod must be counted. A pod that has ended must be in the status before its finalizer is removed.
    fn count(&mut self, job: &Job, pod: &JobPod<'_>, live: &Object) -> Result<(), Stop> {
        let status = &self.cluster.job.status.uncounted_terminated_pods;
        let is_in = |list: &[Box<str>]| list.iter().any(|uid| **uid == *pod.uid());
        let phase = &*live.pod().phase;
        match (is_in(&status.succeeded), is_in(&status.failed)) {
            (true, false) if phase == "Succeeded" => self.cluster.expected.succeeded += 1,
            (false, true) => self.cluster.expected.failed += 1,
            (false, false) if job.is_indexed() && pod.has_succeeded() => {
                let index = pod.fields.index.unwrap();
                self.cluster.succeeded_indexes.insert(index, live.name.clone());
            }
            // A pod that is being deleted when the Job has succeeded does not count.
            (false, false) if !pod.replica.is_terminal() && !pod.has_failed(job) => {}
            _ => return Err(Stop::Broken(format!("pod {} is {phase} and released", live.name))),
        }
        Ok(())
    }

    fn create_pod(&mut self, job: &Job, new: NewPod) -> Result<(), Stop> {
        let name = format!("pi-{}", self.cluster.next());
        self.expectations.expect(OWNER, &name, Expected::Created, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.expectations.refused(OWNER, &name);
            return Err(Stop::Retry);
        }
        self.cluster.create(&name, new);
        let active = i64::try_from(self.cluster.active().count()).unwrap();
        if active > job.parallelism() || job.is_suspended() {
            return Err(Stop::Broken(format!("{active} active pods of {}", job.parallelism())));
        }
        let same =
            self.cluster.active().filter(|pod| pod.pod().job.as_ref().unwrap().index == new.index).count();
        if job.is_indexed() && same > 1 {
            return Err(Stop::Broken(format!("two active pods of index {:?}", new.index)));
        }
        outcome(fate)
    }

    fn delete_pod(&mut self, name: &str, uid: &str, uncounted_at: Option<&str>) -> Result<(), Stop> {
        if let Some(version) = uncounted_at {
            let fate = self.fate();
            let live = self.cluster.pods.truth.get(name).filter(|live| live.uid == uid);
            if live.is_some_and(|live| live.resource_version != version) || matches!(fate, Fate::Refused) {
                return Err(Stop::Retry);
            }
            self.cluster.remove_finalizer(name);
            outcome(fate)?;
        }
        self.expectations.expect(OWNER, name, Expected::Deleted { uid: uid.into() }, self.clock());
        let fate = self.fate();
        if matches!(fate, Fate::Refused) {
            self.expectations.refused(OWNER, name);
            return Err(Stop::Retry);
        }
        if self.cluster.pods.truth.get(name).is_some_and(|live| live.uid == uid) {
            self.cluster.delete(name);
        }
        outcome(fate)
    }
}
