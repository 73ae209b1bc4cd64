//! Conversion in both directions.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn scaler(api_version: &str, spec: Value, status: Value, annotations: Value) -> Map<String, Value> {
    let whole = json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": annotations}, "spec": spec, "status": status});
    let mut whole = whole.as_object().unwrap().clone();
    for part in ["spec", "status"] {
        if whole[part].is_null() {
            whole.remove(part);
        }
    }
    if whole["metadata"]["annotations"].is_null() {
        part(&mut whole, "metadata").unwrap().remove("annotations");
    }
    whole
}

fn cpu(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[test]
fn v1_has_a_cpu_field_and_other_metrics_in_annotations() {
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let found = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "400m"}}});
    let behavior = json!({"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
    let stored = scaler(
        STORED,
        json!({"maxReplicas": 5, "metrics": [memory, cpu(70)], "behavior": behavior}),
        json!({"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [found], "conditions": [{"type": "AbleToScale", "status": "True"}]}),
        json!({"own": "note"}),
    );
    let shown = AutoscalersV1.to_served(stored.clone());
    assert_eq!(shown["apiVersion"], SHOWN);
    assert_eq!(shown["spec"], json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}));
    assert_eq!(
        shown["status"],
        json!({"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40})
    );
    let notes = &shown["metadata"]["annotations"];
    for (name, expected_text) in [
        ("own", "note"),
        (METRICS, r#"[{"resource":{"name":"memory","targetAverageValue":"1Gi"},"type":"Resource"}]"#),
        (
            CURRENT_METRICS,
            r#"[{"resource":{"currentAverageUtilization":40,"currentAverageValue":"400m","name":"cpu"},"type":"Resource"}]"#,
        ),
        (CONDITIONS, r#"[{"status":"True","type":"AbleToScale"}]"#),
        (
            BEHAVIOR,
            r#"{"ScaleUp":{"Policies":[{"PeriodSeconds":15,"Type":"Pods","Value":4}],"SelectPolicy":"Max"}}"#,
        ),
    ] {
        // Compared as JSON, because the order of fields does not matter.
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        assert_eq!(read(notes[name].as_str().unwrap()), read(expected_text), "{name}");
    }
    assert_eq!(AutoscalersV1.to_stored(shown), stored);
}

#[test]
fn v1_fields_are_stored_as_v2_metrics() {
    let stored = |spec: Value, status: Value, annotations: Value| {
        let stored = AutoscalersV1.to_stored(scaler(SHOWN, spec, status, annotations));
        assert_eq!(stored["apiVersion"], STORED);
        stored
    };
    let plain =
        stored(json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}), Value::Null, Value::Null);
    assert_eq!(plain["spec"], json!({"maxReplicas": 5, "metrics": [cpu(70)]}));
    let seen = stored(json!({}), json!({"currentCPUUtilizationPercentage": 3}), Value::Null);
    assert_eq!(seen["status"]["currentMetrics"][0]["resource"]["current"], json!({"averageUtilization": 3}));
    // An invalid annotation is dropped.
    let broken =
        stored(json!({"maxReplicas": 5}), Value::Null, json!({METRICS: "[", BEHAVIOR: "{}", "own": "note"}));
    assert_eq!(broken["metadata"]["annotations"], json!({"own": "note"}));
    assert_eq!(broken["spec"], json!({"maxReplicas": 5, "behavior": {}}));
    // An invalid list is left for validation.
    let wrong = AutoscalersV1.to_served(scaler(STORED, json!({"metrics": 7}), Value::Null, Value::Null));
    assert_eq!(wrong["spec"], json!({"metrics": 7}));
}

/// A v2 metric; there is at most one CPU metric, which comes last.
fn other_metric() -> impl Strategy<Value = Value> {
    let metric = json!({"name": "m", "selector": {"matchLabels": {"a": "b"}}});
    let object = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
    prop_oneof![
        (1..99i64).prop_map(|percent| json!({"type": "Resource",
            "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": percent}}})),
        (1..99i64).prop_map(|percent| json!({"type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": percent}}})),
        Just(json!({"type": "Pods", "pods": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}}})),
        Just(json!({"type": "Object", "object": {"metric": metric, "describedObject": object, "target": {"type": "Value", "value": "5"}}})),
        Just(json!({"type": "Object", "object": {"metric": {"name": "n"}, "describedObject": object,
            "target": {"type": "AverageValue", "averageValue": "5"}}})),
        Just(json!({"type": "External", "external": {"metric": metric, "target": {"type": "Value", "value": "5"}}})),
        Just(json!({"type": "External", "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}}})),
    ]
}

proptest! {
    #[test]
    fn v1_round_trip_preserves_all_metrics(
        others in prop::collection::vec(other_metric(), 0..4),
        percent in prop::option::of(1..99i64),
    ) {
        let mut metrics = others;
        metrics.extend(percent.map(cpu));
        let mut spec = json!({"maxReplicas": 5});
        if !metrics.is_empty() {
            spec["metrics"] = metrics.into();
        }
        let stored = scaler(STORED, spec, Value::Null, Value::Null);
        prop_assert_eq!(AutoscalersV1.to_stored(AutoscalersV1.to_served(stored.clone())), stored);
    }
}
