//! Simulates thousands of histories of a StatefulSet: edits, lost nodes, informers that lag, requests that fail, and
//! crashes between any two requests.
//!
//! `CORACLE_SEEDS=100000` sets their number; `CORACLE_SEED=n` replays one and prints its history.

use std::collections::BTreeMap;

use super::reconcile::Stop;
use super::simulation::number;
use super::stateful_model::StatefulCluster;
use super::stateful_reconcile::StatefulController;

/// Histories of an ordinary test run.
const SEEDS: u64 = 2_000;
/// Steps with faults, and most rounds without faults after which the desired state must be reached.
const STORMY: usize = 250;
const CALM: usize = 400;

#[test]
fn pods_of_a_stateful_set_change_in_order_and_claims_stay() {
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

fn history(seed: u64) -> (Result<(), String>, Vec<String>) {
    let mut cluster = StatefulCluster::new(seed);
    if cluster.chance.once_in(4) {
        // The orphan is replaced, because it lacks the current revision. Meanwhile predecessors may be unavailable.
        cluster.has_failing_pods = true;
        cluster.add_orphan("web-1");
    }
    let mut controller = StatefulController::new(cluster);
    let result = run(&mut controller);
    (result, controller.cluster.log)
}

fn run(controller: &mut StatefulController) -> Result<(), String> {
    let mut claims = Claims::default();
    for _ in 0..STORMY {
        let result = storm(controller);
        settle(controller, result)?;
        claims.check(&controller.cluster)?;
    }
    controller.is_stormy = false;
    controller.cluster.has_failing_pods = false;
    let mut idle_rounds = 0;
    for _ in 0..CALM {
        let writes = controller.writes;
        controller.follow(usize::MAX);
        let mut is_busy = false;
        while controller.cluster.advance() {
            is_busy = true;
        }
        controller.follow(usize::MAX);
        let result = controller.reconcile();
        settle(controller, result)?;
        claims.check(&controller.cluster)?;
        // Longer than a confirmation, and than pods take to be available.
        controller.cluster.seconds += 11;
        let is_idle = !is_busy && controller.writes == writes && controller.cluster.is_current();
        idle_rounds = if is_idle { idle_rounds + 1 } else { 0 };
        // A write without an answer is confirmed in the next round.
        if idle_rounds == 3 {
            return controller.cluster.check_goal();
        }
    }
    Err("the controller never comes to rest".to_owned())
}

/// One step in which anything may happen.
fn storm(controller: &mut StatefulController) -> Result<(), Stop> {
    match controller.cluster.chance.below(20) {
        0 => controller.cluster.edit(),
        1 if controller.cluster.has_failing_pods => controller.cluster.break_pod(),
        2..=5 => drop(controller.cluster.advance()),
        6..=9 => {
            let most = controller.cluster.chance.below(6);
            controller.follow(most);
        }
        10 | 11 => controller.cluster.seconds += i64::try_from(controller.cluster.chance.below(6)).unwrap(),
        _ => controller.reconcile()?,
    }
    Ok(())
}

fn settle(controller: &mut StatefulController, result: Result<(), Stop>) -> Result<(), String> {
    match result {
        Ok(()) | Err(Stop::Retry) => Ok(()),
        Err(Stop::Crash) => {
            controller.restart();
            Ok(())
        }
        Err(Stop::Broken(broken)) => Err(broken),
    }
}

/// The UIDs of the claims by name, as they were seen last.
#[derive(Default)]
struct Claims(BTreeMap<String, String>);

impl Claims {
    /// No claim is deleted or replaced, unless the policy says that scaling down deletes it.
    fn check(&mut self, cluster: &StatefulCluster) -> Result<(), String> {
        let truth = &cluster.claims.truth;
        if !cluster.set.spec.persistent_volume_claim_retention_policy.deletes_when_scaled() {
            let lost =
                self.0.iter().find(|(name, uid)| truth.get(*name).is_none_or(|claim| claim.uid != **uid));
            if let Some((name, _)) = lost {
                return Err(format!("claim {name} is lost"));
            }
        }
        self.0 = truth.iter().map(|(name, claim)| (name.clone(), claim.uid.clone())).collect();
        Ok(())
    }
}
