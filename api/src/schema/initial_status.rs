//! The initial status of a new object: only required fields, with zero values.

use serde_json::{Map, Value};

use super::type_table::{Struct, all};
use super::types::Kind;

/// The initial status of a new object of a built-in kind, or `None` for kinds without a status. Some clients access
/// the status without a check for null.
pub fn initial_status(api_version: &str, kind: &str) -> Option<Value> {
    let field = all().kind_of(api_version, kind)?.field("status")?;
    match field.kind {
        Kind::Object(name) if !field.pointer => all().get(name).map(zero),
        _ => None,
    }
}

/// Returns an object with zero values for its required fields.
fn zero(of: &Struct) -> Value {
    let required = of.fields().iter().filter(|field| field.required);
    let fields = required.filter_map(|field| Some((field.name.to_owned(), zero_of(&field.kind)?)));
    Value::Object(fields.collect())
}

/// The zero value of a type, or `None` if it has none.
pub(super) fn zero_of(kind: &Kind) -> Option<Value> {
    match kind {
        Kind::String | Kind::Bytes => Some("".into()),
        Kind::Bool => Some(false.into()),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => Some(0.into()),
        Kind::Quantity => Some("0".into()),
        Kind::List(_) => Some(Value::Array(Vec::new())),
        Kind::Map(_) => Some(Value::Object(Map::new())),
        Kind::Object(name) => all().get(name).map(zero),
        Kind::Time | Kind::MicroTime | Kind::Any | Kind::OneOf(_) => None,
    }
}

#[cfg(test)]
mod tests {
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
    fn initial_status_matches_the_schema_of_its_kind() {
        for (api_version, kind, _) in all().kinds() {
            let Some(status) = initial_status(api_version, kind) else { continue };
            let mut object = json!({"status": status});
            let expected = object.clone();
            let errors =
                object.as_object_mut().map(|object| crate::schema::normalize(object, api_version, kind));
            assert_eq!((errors, &object), (Some(Vec::new()), &expected), "{api_version} {kind}");
            assert!(
                expected["status"].as_object().is_some_and(|status| status.values().all(is_zero)),
                "{kind}"
            );
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
}
