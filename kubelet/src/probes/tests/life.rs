//! Probe tasks over the life of a container, on a paused clock; only exec probes are used, so that nothing real is waited for.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::bed::{Bed, Does, Engine, target};
use crate::observed::Timestamp;
use crate::observed::probes::Kind::{Liveness, Readiness, Startup};
use crate::observed::probes::{ProbeResult, ProbeResults};

const FINE: Does = Does::Ends(0, "");
const BROKEN: Does = Does::Ends(1, "no");

fn exec(more: Value) -> Value {
    let mut probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    probe
}

/// Advances the paused clock.
async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

/// Whether the times match, within the alignment of attempts.
fn near(times: &[u128], expected: &[u128]) -> bool {
    times.len() == expected.len() && times.iter().zip(expected).all(|(t, e)| t.abs_diff(*e) <= 60)
}

#[tokio::test(start_paused = true)]
async fn readiness_is_set_at_once_and_lost_after_three_failures() {
    let engine = Engine::new(&[FINE, BROKEN, BROKEN, BROKEN, FINE]);
    let start = Instant::now();
    let bed = Bed::started(engine.clone(), json!({"readinessProbe": exec(json!({}))}));
    assert_eq!(bed.stands(Readiness), None, "not decided before it looked");
    bed.probe_result(Readiness, true).await;
    assert!(start.elapsed() < Duration::from_millis(100));
    let failed = bed.probe_result(Readiness, false).await;
    assert_eq!(failed.message, "no");
    assert!(near(&engine.ran_at(start), &[0, 1000, 2000, 3000]), "{:?}", engine.ran_at(start));
    bed.probe_result(Readiness, true).await;
    assert_eq!(bed.events().await, vec!["Unhealthy: Readiness probe failed: no"; 3]);
}

#[tokio::test(start_paused = true)]
async fn early_probe_failures_are_not_counted_or_reported() {
    let engine = Engine::new(&[BROKEN, BROKEN, FINE]);
    let start = Instant::now();
    let probe = exec(json!({"failureThreshold": 1, "periodSeconds": 10}));
    let bed = Bed::started(engine.clone(), json!({"readinessProbe": probe}));
    bed.probe_result(Readiness, true).await;
    assert!(near(&engine.ran_at(start), &[0, 500, 1000]), "{:?}", engine.ran_at(start));
    assert!(bed.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn first_probe_after_the_initial_delay_counts() {
    let engine = Engine::new(&[BROKEN]);
    let start = Instant::now();
    let probe = exec(json!({"initialDelaySeconds": 5, "failureThreshold": 2}));
    let bed = Bed::started(engine.clone(), json!({"readinessProbe": probe}));
    bed.probe_result(Readiness, false).await;
    assert!(near(&engine.ran_at(start), &[5000, 6000]), "{:?}", engine.ran_at(start));
}

#[tokio::test(start_paused = true)]
async fn liveness_probe_stops_after_it_failed() {
    let engine = Engine::new(&[BROKEN]);
    let start = Instant::now();
    let mut bed = Bed::started(engine.clone(), json!({"livenessProbe": exec(json!({}))}));
    bed.probe_result(Liveness, false).await;
    pass(10_000).await;
    assert!(near(&engine.ran_at(start), &[1000, 2000, 3000]), "{:?}", engine.ran_at(start));
    bed.sync();
    pass(10_000).await;
    assert_eq!(engine.ran_at(start).len(), 3, "nor when it is synced again");

    bed.target = target("c2", json!({"livenessProbe": exec(json!({}))}));
    bed.sync();
    assert_eq!(bed.stands(Liveness), None, "the next container starts clean");
    bed.probe_result(Liveness, false).await;
}

#[tokio::test(start_paused = true)]
async fn startup_probe_delays_other_probes_until_it_succeeds() {
    let engine = Engine::new(&[BROKEN, BROKEN, FINE]);
    let start = Instant::now();
    let container = json!({
        "startupProbe": exec(json!({"initialDelaySeconds": 1, "failureThreshold": 10})),
        "readinessProbe": exec(json!({"periodSeconds": 5})),
        "livenessProbe": exec(json!({"periodSeconds": 5})),
    });
    let bed = Bed::started(engine.clone(), container);
    pass(2_500).await;
    assert_eq!((bed.stands(Readiness), bed.stands(Liveness)), (None, None));
    bed.probe_result(Startup, true).await;
    bed.probe_result(Readiness, true).await;
    bed.probe_result(Liveness, true).await;
    pass(5_100).await;
    let expected = [1000, 2000, 3000, 3000, 3000, 8000, 8000];
    assert!(near(&engine.ran_at(start), &expected), "{:?}", engine.ran_at(start));
}

#[tokio::test(start_paused = true)]
async fn failed_startup_probe_is_reported() {
    let engine = Engine::new(&[BROKEN]);
    let probe = exec(json!({"failureThreshold": 2}));
    let bed = Bed::started(engine.clone(), json!({"startupProbe": probe, "livenessProbe": exec(json!({}))}));
    bed.probe_result(Startup, false).await;
    assert_eq!(bed.events().await, vec!["Unhealthy: Startup probe failed: no"; 2]);
}

#[tokio::test(start_paused = true)]
async fn an_edited_probe_restarts_and_keeps_its_result() {
    let engine = Engine::new(&[FINE]);
    let mut bed = Bed::started(engine.clone(), json!({"readinessProbe": exec(json!({}))}));
    bed.probe_result(Readiness, true).await;
    let id = bed.target.container_id.clone();
    bed.target = target(&id, json!({"readinessProbe": {"exec": {"command": ["cat", "/ready"]}}}));
    bed.sync();
    assert_eq!(bed.stands(Readiness), Some(true));
    pass(11_000).await;
    assert_eq!(engine.last(), ["cat", "/ready"]);
}

#[tokio::test(start_paused = true)]
async fn unrelated_pod_change_does_not_reset_probes() {
    let engine = Engine::new(&[FINE]);
    let start = Instant::now();
    let mut bed = Bed::started(engine.clone(), json!({"readinessProbe": exec(json!({"periodSeconds": 10}))}));
    bed.probe_result(Readiness, true).await;
    let mut pod = (*bed.target.pod).clone();
    pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    bed.target.pod = Arc::new(pod);
    bed.sync();
    pass(9_000).await;
    assert_eq!(engine.ran_at(start).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn restarted_kubelet_keeps_probe_results_until_a_new_result() {
    let engine = Engine::new(&[BROKEN]);
    let start = Instant::now();
    let container = json!({
        "startupProbe": exec(json!({})),
        "readinessProbe": exec(json!({"periodSeconds": 4, "failureThreshold": 2})),
    });
    let mut bed = Bed::new(engine.clone(), container);
    bed.target.started_at = Timestamp::now() - std::time::Duration::from_secs(3600);
    let mut probe_results = ProbeResults::default();
    for kind in [Startup, Readiness] {
        let probe_result =
            ProbeResult { success: true, since: bed.target.started_at, message: String::new() };
        probe_results.set("c1", kind, probe_result);
    }
    bed.prober.restore(probe_results);
    bed.sync();
    assert_eq!(bed.stands(Readiness), Some(true));
    bed.probe_result(Readiness, false).await;
    let ran = engine.ran_at(start);
    assert_eq!(ran.len(), 2, "startup does not run again: {ran:?}");
    assert!(ran[0] <= 4050, "the first look lies within a period: {ran:?}");
}

#[tokio::test(start_paused = true)]
async fn terminating_pod_runs_only_readiness_probes() {
    let engine = Engine::new(&[BROKEN]);
    let container = json!({"livenessProbe": exec(json!({})), "readinessProbe": exec(json!({}))});
    let mut bed = Bed::started(engine, container);
    bed.prober.end();
    bed.probe_result(Readiness, false).await;
    bed.sync();
    pass(10_000).await;
    assert_eq!(bed.stands(Liveness), None);
}

#[tokio::test(start_paused = true)]
async fn stopped_container_is_not_probed() {
    let engine = Engine::new(&[FINE]);
    let start = Instant::now();
    let mut bed = Bed::started(engine.clone(), json!({"readinessProbe": exec(json!({}))}));
    bed.probe_result(Readiness, true).await;
    bed.prober.sync(&[]);
    assert_eq!(bed.stands(Readiness), None);
    pass(10_000).await;
    assert_eq!(engine.ran_at(start).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sidecars_are_probed_too() {
    let engine = Engine::new(&[FINE]);
    let mut bed = Bed::new(engine, json!({}));
    let mut pod = (*bed.target.pod).clone();
    let spec = pod.spec.as_mut().unwrap();
    let mut sidecar = spec.containers[0].clone();
    sidecar.name = "proxy".to_owned();
    sidecar.readiness_probe = serde_json::from_value(exec(json!({}))).unwrap();
    spec.init_containers = Some(vec![sidecar]);
    bed.target.pod = Arc::new(pod);
    bed.target.name = "proxy".to_owned();
    bed.sync();
    bed.probe_result(Readiness, true).await;
}
