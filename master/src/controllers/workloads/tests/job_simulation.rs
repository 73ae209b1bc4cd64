//! Simulates thousands of histories of a Job: edits, failing pods, an informer that lags, requests that fail, and crashes
//! between any two requests.
//!
//! `CORACLE_SEEDS=100000` sets their number; `CORACLE_SEED=n` replays one and prints its history.

use super::job_cluster::JobCluster;
use super::job_reconcile::JobRunner;
use super::reconcile::Stop;
use super::simulation::number;
use crate::controllers::fields::JOB_TRACKING;

/// Histories of an ordinary test run.
const SEEDS: u64 = 3_000;
/// Steps with faults, and most rounds without faults after which the Job must be finished.
const STORMY: usize = 150;
const CALM: usize = 400;

#[test]
fn each_pod_of_a_job_is_counted_once() {
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
    let mut runner = JobRunner::new(JobCluster::new(seed));
    let result = run(&mut runner);
    (result, runner.cluster.log)
}

fn run(runner: &mut JobRunner) -> Result<(), String> {
    for _ in 0..STORMY {
        let result = storm(runner);
        settle(runner, result)?;
        check_counts(&runner.cluster)?;
    }
    runner.is_stormy = false;
    runner.cluster.has_failing_pods = false;
    runner.cluster.let_run();
    for _ in 0..CALM {
        runner.follow(usize::MAX);
        while runner.cluster.advance_pod() {}
        runner.follow(usize::MAX);
        let result = runner.reconcile();
        settle(runner, result)?;
        check_counts(&runner.cluster)?;
        if runner.cluster.job.is_finished() {
            return check_end(&runner.cluster);
        }
        runner.cluster.seconds += 11;
    }
    Err("the Job never finishes".to_owned())
}

/// One step in which anything may happen.
fn storm(runner: &mut JobRunner) -> Result<(), Stop> {
    match runner.cluster.chance.below(20) {
        0 => runner.cluster.edit(),
        1 if runner.cluster.has_failing_pods => runner.cluster.break_pod(),
        2..=5 => drop(runner.cluster.advance_pod()),
        6..=9 => {
            let most = runner.cluster.chance.below(6);
            runner.follow(most);
        }
        10 | 11 => runner.cluster.seconds += i64::try_from(runner.cluster.chance.below(15)).unwrap(),
        _ => runner.reconcile()?,
    }
    Ok(())
}

fn settle(runner: &mut JobRunner, result: Result<(), Stop>) -> Result<(), String> {
    match result {
        Ok(()) | Err(Stop::Retry) => Ok(()),
        Err(Stop::Crash) => {
            runner.restart();
            Ok(())
        }
        Err(Stop::Broken(broken)) => Err(broken),
    }
}

/// The counters never exceed the pods that were released.
fn check_counts(cluster: &JobCluster) -> Result<(), String> {
    let (status, expected) = (&cluster.job.status, cluster.expected);
    let is_indexed = cluster.job.is_indexed();
    if status.failed > expected.failed || (!is_indexed && status.succeeded > expected.succeeded) {
        return Err(format!("counts more than {expected:?}: {status:?}"));
    }
    Ok(())
}

fn check_end(cluster: &JobCluster) -> Result<(), String> {
    let (status, expected) = (&cluster.job.status, cluster.expected);
    let succeeded = if cluster.job.is_indexed() {
        i64::try_from(cluster.succeeded_indexes.len()).unwrap()
    } else {
        expected.succeeded
    };
    if (status.succeeded, status.failed) != (succeeded, expected.failed) {
        return Err(format!("{succeeded} pods succeeded and {} failed: {status:?}", expected.failed));
    }
    if let Some(pod) = cluster.pods.truth.values().find(|pod| pod.has_finalizer(JOB_TRACKING)) {
        return Err(format!("pod {} keeps its finalizer", pod.name));
    }
    let (is_complete, has_failed) = (status.is_true("Complete"), status.is_true("Failed"));
    let criteria = (status.is_true("SuccessCriteriaMet"), status.is_true("FailureTarget"));
    if is_complete == has_failed || criteria != (is_complete, has_failed) {
        return Err(format!("conditions {:?}", status.conditions));
    }
    if is_complete != status.completion_time.is_some() || status.active != 0 || status.terminating != Some(0)
    {
        return Err(format!("{status:?}"));
    }
    let wanted = cluster.job.spec.completions.unwrap_or(1);
    if is_complete && cluster.job.spec.success_policy.is_none() && status.succeeded < wanted {
        return Err(format!("{} of {wanted} succeeded", status.succeeded));
    }
    Ok(())
}
