//! What a new object's status is, kind by kind.

use serde_json::{Value, json};

use super::first_status;
use crate::schema::all;

#[test]
fn it_has_what_a_status_cannot_be_without() {
    let daemons = json!({
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
    });
    let counts =
        json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    for (api_version, kind, status) in [
        ("apps/v1", "Deployment", Some(json!({}))),
        ("apps/v1", "DaemonSet", Some(daemons)),
        ("apps/v1", "ReplicaSet", Some(json!({"replicas": 0}))),
        ("policy/v1", "PodDisruptionBudget", Some(counts)),
        ("storage.k8s.io/v1", "VolumeAttachment", Some(json!({"attached": false}))),
        ("v1", "ConfigMap", None),
        ("v1", "Status", None),
        ("example.com/v1", "Widget", None),
    ] {
        assert_eq!(first_status(api_version, kind), status, "{kind}");
    }
}

#[test]
fn it_fits_its_kind() {
    for (api_version, kind, _) in all().kinds() {
        let Some(status) = first_status(api_version, kind) else { continue };
        let mut object = json!({"status": status});
        let expected = object.clone();
        let faults = object.as_object_mut().map(|object| crate::schema::fit(object, api_version, kind));
        assert_eq!((faults, &object), (Some(Vec::new()), &expected), "{api_version} {kind}");
        assert!(expected["status"].as_object().is_some_and(|status| status.values().all(is_zero)), "{kind}");
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0",
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}
