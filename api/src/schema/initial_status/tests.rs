//! Tests of the initial status of each kind.

use serde_json::{Value, json};

use super::initial_status;
use crate::schema::all;

#[test]
fn the_status_has_its_required_fields() {
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
        assert_eq!(initial_status(api_version, kind), status, "{kind}");
    }
}

#[test]
fn it_fits_its_kind() {
    for (api_version, kind, _) in all().kinds() {
        let Some(status) = initial_status(api_version, kind) else { continue };
        let mut object = json!({"status": status});
        let expected = object.clone();
        let errors = object.as_object_mut().map(|object| crate::schema::normalize(object, api_version, kind));
        assert_eq!((errors, &object), (Some(Vec::new()), &expected), "{api_version} {kind}");
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
