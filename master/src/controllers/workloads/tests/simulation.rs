//! Simulates thousands of histories of a Deployment and of a DaemonSet: edits, failing pods, informers that lag, requests that fail, and
//! crashes between any two requests.
//!
//! `CORACLE_SEEDS=100000` sets their number; `CORACLE_SEED=n` replays one and prints its history.

use super::cluster::{Cluster, is_of_deployment, template};
use super::daemons::Daemons;
use super::reconcile::{Controllers, Stop};
use crate::controllers::deployment::revision::{replica_set_name, template_hash};
use crate::objects::{ObjectMeta, OwnerReference, ReplicaSet};

/// Histories of an ordinary test run.
const SEEDS: u64 = 2_000;
/// Steps with faults, and most rounds without faults after which the desired state must be reached.
const STORMY: usize = 250;
const CALM: usize = 400;

#[test]
fn no_pod_is_too_many_and_none_is_lost() {
    simulate(history);
}

#[test]
fn each_eligible_node_gets_one_daemon_pod() {
    simulate(daemon_history);
}

/// Runs a history with one seed or with all of them. A history returns whether it went well, and its log.
fn simulate(history: impl Fn(u64) -> (Result<(), String>, Vec<String>)) {
    if let Some(seed) = number("CORACLE_SEED") {
        let (result, log) = history(seed);
        println!("{}", log.join("\n"));
        result.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        return;
    }
    let seeds = number("CORACLE_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        if let (Err(broken), _) = history(seed) {
            panic!("seed {seed}: {broken}; replay it with CORACLE_SEED={seed}");
        }
    }
}

pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn history(seed: u64) -> (Result<(), String>, Vec<String>) {
    let mut cluster = Cluster::new(seed);
    prepare(&mut cluster);
    let mut controllers = Controllers::new(cluster);
    let result = run(&mut controllers);
    (result, controllers.cluster.log)
}

fn daemon_history(seed: u64) -> (Result<(), String>, Vec<String>) {
    let mut daemons = Daemons::new(seed);
    let result = run_daemons(&mut daemons);
    (result, daemons.log)
}

fn run_daemons(daemons: &mut Daemons) -> Result<(), String> {
    let settle = |daemons: &mut Daemons, result: Result<(), Stop>| match result {
        Ok(()) | Err(Stop::Retry) => Ok(()),
        Err(Stop::Crash) => {
            daemons.restart();
            Ok(())
        }
        Err(Stop::Broken(broken)) => Err(broken),
    };
    for _ in 0..STORMY {
        if daemons.chance.once_in(2) {
            daemons.disturb();
        } else {
            let result = daemons.reconcile();
            settle(daemons, result)?;
        }
    }
    (daemons.is_stormy, daemons.has_failures) = (false, false);
    let mut idle_rounds = 0;
    for _ in 0..CALM {
        let writes = daemons.writes;
        daemons.follow(usize::MAX);
        let mut is_busy = false;
        while daemons.advance_pod() {
            is_busy = true;
        }
        daemons.follow(usize::MAX);
        let result = daemons.reconcile();
        settle(daemons, result)?;
        // Longer than a confirmation, and than pods take to be available.
        daemons.seconds += 11;
        let is_idle = !is_busy && daemons.writes == writes && daemons.is_current();
        idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
        // Longer than the longest pause before a failed pod is replaced.
        if idle_rounds == 90 {
            return daemons.check_goal();
        }
    }
    Err("the controller never comes to rest".to_owned())
}

/// ReplicaSets that exist before the Deployment: one to adopt, and one of another owner with the name of a future one.
fn prepare(cluster: &mut Cluster) {
    if cluster.chance.once_in(3) {
        let mut set = set("old", cluster.chance.below(4), cluster);
        set.spec.replicas = Some(2);
        cluster.sets.put("old", set);
    }
    if cluster.chance.once_in(3) {
        let image = cluster.chance.below(4);
        let name = replica_set_name("web", &template_hash(&template(image, None).digest, 0));
        let mut set = set(&name, 9, cluster);
        set.spec.replicas = Some(0);
        set.metadata.owner_references =
            [OwnerReference { uid: "foreign".into(), controller: true, ..OwnerReference::default() }]
                .into_iter()
                .collect();
        cluster.sets.put(&name, set);
    }
    cluster.sets.relist();
}

fn set(name: &str, image: usize, cluster: &mut Cluster) -> ReplicaSet {
    let metadata = ObjectMeta {
        name: name.into(),
        uid: cluster.next().into(),
        resource_version: cluster.next().into(),
        generation: 1,
        creation_timestamp: Some(cluster.now()),
        ..ObjectMeta::default()
    };
    let mut set: ReplicaSet = ReplicaSet { metadata, ..ReplicaSet::default() };
    set.spec.min_ready_seconds = cluster.deployment.spec.min_ready_seconds;
    set.spec.template = template(image, Some(name));
    set.metadata.labels = set.spec.template.labels.clone();
    set.spec.selector.match_labels = set.spec.template.labels.clone();
    set
}

fn run(controllers: &mut Controllers) -> Result<(), String> {
    for _ in 0..STORMY {
        let result = storm(controllers);
        settle(controllers, result)?;
    }
    controllers.is_stormy = false;
    controllers.cluster.has_failing_pods = false;
    controllers.cluster.resume();
    let mut idle_rounds = 0;
    for _ in 0..CALM {
        let writes = controllers.writes;
        controllers.follow(usize::MAX);
        let mut is_busy = false;
        while controllers.cluster.advance_pod() {
            is_busy = true;
        }
        let sets: Vec<String> = controllers.cluster.sets.truth.keys().cloned().collect();
        for set in sets {
            let result = controllers.reconcile_set(&set);
            settle(controllers, result)?;
        }
        controllers.follow(usize::MAX);
        let result = controllers.reconcile_deployment().map(drop);
        settle(controllers, result)?;
        // Longer than a confirmation, and than pods take to be available.
        controllers.cluster.tick(11);
        let is_current = controllers.cluster.sets.is_current() && controllers.cluster.pods.is_current();
        let is_idle = !is_busy && controllers.writes == writes && is_current;
        idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
        // A write without an answer is confirmed in the next round.
        if idle_rounds == 3 {
            return check_goal(&controllers.cluster);
        }
    }
    Err("the controllers never come to rest".to_owned())
}

/// One step in which anything may happen.
fn storm(controllers: &mut Controllers) -> Result<(), Stop> {
    match controllers.cluster.chance.below(20) {
        0 => controllers.cluster.edit(),
        1 if controllers.cluster.has_failing_pods => controllers.cluster.break_pod(),
        2..=4 => drop(controllers.cluster.advance_pod()),
        5..=8 => {
            let most = controllers.cluster.chance.below(6);
            controllers.follow(most);
        }
        9 => {
            let seconds = controllers.cluster.chance.below(6);
            controllers.cluster.tick(seconds);
        }
        10..=13 => drop(controllers.reconcile_deployment()?),
        _ => {
            let sets: Vec<String> = controllers.cluster.sets.truth.keys().cloned().collect();
            if let Some(set) = sets.get(controllers.cluster.chance.below(sets.len())) {
                controllers.reconcile_set(set)?;
            }
        }
    }
    Ok(())
}

fn settle(controllers: &mut Controllers, result: Result<(), Stop>) -> Result<(), String> {
    match result {
        Ok(()) | Err(Stop::Retry) => Ok(()),
        Err(Stop::Crash) => {
            controllers.restart();
            Ok(())
        }
        Err(Stop::Broken(broken)) => Err(broken),
    }
}

fn check_goal(cluster: &Cluster) -> Result<(), String> {
    let (deployment, wanted) = (&cluster.deployment, cluster.deployment.replicas());
    let own: Vec<&ReplicaSet> = cluster.sets.truth.values().filter(|set| is_of_deployment(set)).collect();
    let (new, old): (Vec<&ReplicaSet>, Vec<&ReplicaSet>) =
        own.into_iter().partition(|set| set.spec.template.digest == deployment.spec.template.digest);
    let [new] = *new else { return Err(format!("{} ReplicaSets of the template", new.len())) };
    let active = i64::try_from(cluster.active(&new.metadata.uid)).unwrap();
    if (new.replicas(), active, cluster.available(new)) != (wanted, wanted, wanted) {
        return Err(format!("{active} pods of {wanted}: {new:?}"));
    }
    if let Some(old) = old.iter().find(|old| old.replicas() != 0 || cluster.active(&old.metadata.uid) != 0) {
        return Err(format!("old pods of {old:?}"));
    }
    if old.len() > 1 {
        return Err(format!("{} old ReplicaSets", old.len()));
    }
    let status = &deployment.status;
    let counts = [status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas];
    let progress = status.condition("Progressing").map(|condition| &*condition.reason);
    let available = status.condition("Available").map(|condition| &*condition.status);
    if counts != [wanted; 4] || progress != Some("NewReplicaSetAvailable") || available != Some("True") {
        return Err(format!("{status:?}"));
    }
    let revision = "deployment.kubernetes.io/revision";
    if new.metadata.annotations.get(revision) != deployment.metadata.annotations.get(revision) {
        return Err(format!(
            "revisions: {:?} {:?}",
            new.metadata.annotations, deployment.metadata.annotations
        ));
    }
    Ok(())
}
