//! Exec probes.

use serde_json::json;
use tokio::time::{Duration, sleep};

use super::bed::{Bed, Does, Engine};
use crate::observed::probes::Kind::{Liveness, Readiness};

#[tokio::test(start_paused = true)]
async fn a_failed_command_is_reported_with_its_output_or_exit_code() {
    for (does, expected) in [
        (Does::Ends(2, "cat: /ready: No such file\n"), "cat: /ready: No such file\n"),
        (Does::Ends(7, "\n"), "command ended with exit code 7"),
        (Does::Hangs, "command timed out: \"cat /ready\" timed out after 3s"),
    ] {
        let bed = Bed::started(
            Engine::new(&[does]),
            json!({"livenessProbe":
                {"exec": {"command": ["cat", "/ready"]}, "timeoutSeconds": 3, "failureThreshold": 1}}),
        );
        let probe_result = bed.probe_result(Liveness, false).await;
        assert_eq!(probe_result.message, expected);
        assert_eq!(bed.events().await, [format!("Unhealthy: Liveness probe failed: {expected}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_failure_has_no_result_and_is_reported_once() {
    let bed = Bed::started(
        Engine::new(&[Does::Fails]),
        json!({"livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}),
    );
    sleep(Duration::from_secs(30)).await;
    assert_eq!(bed.stands(Liveness), None);
    let expected_message = "the container engine refused to run a command: no such container";
    let expected =
        format!("Unhealthy: Liveness probe errored and resulted in unknown state: {expected_message}");
    assert_eq!(bed.events().await, [expected]);
}

#[tokio::test(start_paused = true)]
async fn exec_probe_sees_the_literal_environment() {
    let engine = Engine::new(&[Does::Ends(0, "")]);
    let bed = Bed::started(
        engine.clone(),
        json!({
            "env": [{"name": "FILE", "value": "/ready"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "readinessProbe": {"exec": {"command": ["test", "$(FILE)", "$$(FILE)", "$(POD)", "$(NONE)"]}},
        }),
    );
    bed.probe_result(Readiness, true).await;
    assert_eq!(engine.last(), ["test", "/ready", "$(FILE)", "$(POD)", "$(NONE)"]);
}
