//! Simulates thousands of histories of a CronJob: a clock that jumps, a cache that lags, requests that fail, and crashes
//! between any two requests.
//!
//! `CORACLE_SEEDS=100000` sets their number; `CORACLE_SEED=n` replays one and prints its history.

use std::collections::BTreeSet;
use std::time::Instant;

use api::cron::Schedule;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::cluster::{Chance, Kind};
use super::reconcile::{Fate, Stop, outcome};
use super::simulation::number;
use crate::controllers::cron_job::plan::{Input, OwnJob, plan};
use crate::controllers::workloads::expectations::{Expectations, Expected, Seen};
use crate::objects::CronJob;
use crate::objects::cron_job::{ConcurrencyPolicy, CronJobStatus, JobReference};

/// Histories of an ordinary test run, and steps of each.
const SEEDS: u64 = 300;
const STEPS: usize = 200;
/// When the CronJob is created, in seconds since 1970.
const START: i64 = 1_800_000_000;

#[derive(Clone, Debug)]
struct ModelJob {
    name: String,
    uid: String,
    scheduled: Timestamp,
    end: Option<bool>,
    ended: Option<Timestamp>,
}

struct Model {
    chance: Chance,
    now: i64,
    cron_job: CronJob,
    version: u64,
    jobs: Kind<ModelJob>,
    expectations: Expectations,
    /// Scheduled times for which a Job was created.
    started: BTreeSet<Timestamp>,
    /// When the controller reconciles next without an event.
    due: i64,
    log: Vec<String>,
}

#[test]
fn no_job_of_a_cron_job_starts_twice() {
    if let Some(seed) = number("CORACLE_SEED") {
        let (result, log) = history(seed);
        println!("{}", log.join("\n"));
        result.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        return;
    }
    for seed in 0..number("CORACLE_SEEDS").unwrap_or(SEEDS) {
        if let (Err(broken), _) = history(seed) {
            panic!("seed {seed}: {broken}; replay it with CORACLE_SEED={seed}");
        }
    }
}

fn history(seed: u64) -> (Result<(), String>, Vec<String>) {
    let mut model = Model::new(seed);
    let result = model.run();
    (result, model.log)
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let schedule = ["* * * * *", "*/5 * * * *", "0 * * * *", "@every 2m", "@every 20s"][chance.below(5)];
        let policy = ["Allow", "Forbid", "Replace"][chance.below(3)];
        let spec = json!({
            "schedule": schedule, "concurrencyPolicy": policy,
            "startingDeadlineSeconds": if chance.once_in(2) { Some(30 + chance.below(300)) } else { None },
            "successfulJobsHistoryLimit": chance.below(3), "failedJobsHistoryLimit": 1,
        });
        let created = Timestamp::from_second(START).unwrap();
        let metadata =
            json!({"name": "tick", "namespace": "n", "uid": "c", "creationTimestamp": created.to_string()});
        let cron_job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let log = vec![spec.to_string()];
        Self {
            chance,
            now: START,
            cron_job,
            version: 0,
            jobs: Kind::new(),
            expectations: Expectations::default(),
            started: BTreeSet::new(),
            due: START,
            log,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.happen();
            if self.chance.once_in(2) || self.now >= self.due {
                self.settle(true)?;
            }
        }
        // Without faults, the last Job that is due starts.
        for job in self.jobs.truth.clone().into_values() {
            self.finish(job);
        }
        for _ in 0..3 {
            self.follow(usize::MAX);
            self.settle(false)?;
        }
        self.check_goal()
    }

    /// The clock, the informers or the Jobs advance.
    fn happen(&mut self) {
        match self.chance.below(12) {
            0 => self.now += i64::try_from(self.chance.below(20_000)).unwrap(),
            1 => self.now -= i64::try_from(self.chance.below(2_000)).unwrap(),
            2..=5 => self.now += i64::try_from(self.chance.below(90)).unwrap(),
            6..=8 => self.follow(1),
            _ => {
                let jobs: Vec<ModelJob> = self.jobs.truth.values().cloned().collect();
                if !jobs.is_empty() {
                    let job = jobs[self.chance.below(jobs.len())].clone();
                    self.finish(job);
                }
            }
        }
    }

    /// The informer shows some changes.
    fn follow(&mut self, most: usize) {
        for (name, _) in self.jobs.follow(most) {
            self.expectations.observe("c", &name);
        }
    }

    fn finish(&mut self, job: ModelJob) {
        if job.end.is_none() {
            let (end, ended) = (Some(!self.chance.once_in(3)), Timestamp::from_second(self.now).ok());
            self.jobs.put(&job.name.clone(), ModelJob { end, ended, ..job });
        }
    }

    fn settle(&mut self, is_stormy: bool) -> Result<(), String> {
        match self.reconcile(is_stormy) {
            Ok(()) | Err(Stop::Retry) => Ok(()),
            Err(Stop::Crash) => {
                self.jobs.relist();
                self.expectations = Expectations::default();
                Ok(())
            }
            Err(Stop::Broken(broken)) => Err(broken),
        }
    }

    fn fate(&mut self, is_stormy: bool) -> Fate {
        if is_stormy && self.chance.once_in(6) {
            self.happen();
        }
        match self.chance.below(20) {
            0 if is_stormy => Fate::Crash,
            1 if is_stormy => Fate::Lost,
            2 if is_stormy => Fate::Refused,
            _ => Fate::Answered,
        }
    }

    fn reconcile(&mut self, is_stormy: bool) -> Result<(), Stop> {
        let (cron_job, mut version) = (self.cron_job.clone(), self.version);
        let cached = self.jobs.cache.clone();
        if !self.expectations.settle("c", |name| cached.get(name).map(seen)) {
            return Ok(());
        }
        let is_listed = |job: &ModelJob| cron_job.status.is_active(&job.uid) || job.end.is_some();
        let truth =
            |job: ModelJob| self.jobs.truth.get(&job.name).filter(|live| live.uid == job.uid).cloned();
        let confirmed =
            cached.into_values().filter_map(|job| if is_listed(&job) { Some(job) } else { truth(job) });
        let mut jobs: Vec<ModelJob> = confirmed.collect();
        for known in &cron_job.status.active {
            if !jobs.iter().any(|job| *job.uid == *known.uid) {
                jobs.extend(self.jobs.truth.get(&*known.name).filter(|job| *job.uid == *known.uid).cloned());
            }
        }
        let own: Vec<OwnJob<'_>> = jobs.iter().map(own_job).collect();
        let now = Timestamp::from_second(self.now).unwrap();
        let plan = plan(Input { cron_job: &cron_job, jobs: &own, now });
        self.write_status(is_stormy, &mut version, &cron_job.status, plan.status.clone())?;
        for (name, uid) in &plan.replace {
            self.delete(is_stormy, name, uid)?;
        }
        if let Some(start) = &plan.start {
            self.expectations.expect("c", &start.name, Expected::Created, Instant::now());
            let fate = self.fate(is_stormy);
            if matches!(fate, Fate::Refused) {
                self.expectations.refused("c", &start.name);
                return Err(Stop::Retry);
            }
            let (uid, is_finished) = match self.jobs.truth.get(&start.name) {
                Some(known) => (known.uid.clone(), known.end.is_some()),
                None => (self.create(&start.name, start.scheduled)?, false),
            };
            outcome(fate)?;
            let name = start.name.as_str().into();
            let job = JobReference { name, uid: uid.into(), ..JobReference::default() };
            let status = plan.status_with(start, (!is_finished).then_some(job));
            self.write_status(is_stormy, &mut version, &plan.status, status)?;
        }
        for (name, uid) in &plan.expired {
            match self.delete(is_stormy, name, uid) {
                Ok(()) | Err(Stop::Retry) => {}
                stop => return stop,
            }
        }
        self.due = plan
            .requeue_after
            .map_or(i64::MAX, |after| now.as_second() + i64::try_from(after.as_secs()).unwrap());
        Ok(())
    }

    fn delete(&mut self, is_stormy: bool, name: &str, uid: &str) -> Result<(), Stop> {
        let fate = self.fate(is_stormy);
        if !matches!(fate, Fate::Refused) && self.jobs.truth.get(name).is_some_and(|job| job.uid == uid) {
            self.jobs.remove(name);
        }
        outcome(fate)
    }

    fn create(&mut self, name: &str, scheduled: Timestamp) -> Result<String, Stop> {
        let uid = format!("u{}", self.log.len());
        self.log.push(format!("{} creates {name} for {scheduled}", self.now));
        if !self.started.insert(scheduled) {
            return Err(Stop::Broken(format!("starts {name} twice")));
        }
        let running = self.jobs.truth.values().filter(|job| job.end.is_none()).count();
        if self.cron_job.spec.concurrency_policy != ConcurrencyPolicy::Allow && running > 0 {
            return Err(Stop::Broken(format!("starts {name} beside another")));
        }
        self.jobs.put(
            name,
            ModelJob { name: name.to_owned(), uid: uid.clone(), scheduled, end: None, ended: None },
        );
        Ok(uid)
    }

    fn write_status(
        &mut self,
        is_stormy: bool,
        version: &mut u64,
        before: &CronJobStatus,
        status: CronJobStatus,
    ) -> Result<(), Stop> {
        if *before == status {
            return Ok(());
        }
        let fate = self.fate(is_stormy);
        if matches!(fate, Fate::Refused) || self.version != *version {
            return Err(Stop::Retry);
        }
        if status.last_schedule_time < before.last_schedule_time {
            return Err(Stop::Broken("the last time decreases".to_owned()));
        }
        self.log.push(format!("{} writes {}", self.now, status.to_json()));
        self.cron_job.status = status;
        self.version += 1;
        *version = self.version;
        outcome(fate)
    }

    fn check_goal(&self) -> Result<(), String> {
        let spec = &self.cron_job.spec;
        let schedule = Schedule::parse(&spec.schedule).unwrap();
        let (created, now) =
            (Timestamp::from_second(START).unwrap(), Timestamp::from_second(self.now).unwrap());
        let handled = self.cron_job.status.last_schedule_time.unwrap_or(created);
        let open = schedule.last(handled, now, &TimeZone::UTC, 1).map(|(last, _)| last);
        let deadline = spec.starting_deadline_seconds.unwrap_or(i64::MAX);
        match open.filter(|last| now.as_second() - last.as_second() <= deadline) {
            Some(missed) => Err(format!("{missed} is not started at {now}")),
            None => Ok(()),
        }
    }
}

fn own_job(job: &ModelJob) -> OwnJob<'_> {
    OwnJob {
        name: &job.name,
        uid: &job.uid,
        end: job.end,
        ended: job.ended,
        started: Some(job.scheduled),
        scheduled: Some(job.scheduled),
        ..OwnJob::default()
    }
}

fn seen(job: &ModelJob) -> Seen<'_> {
    Seen { uid: &job.uid, resource_version: "", is_terminating: false }
}
