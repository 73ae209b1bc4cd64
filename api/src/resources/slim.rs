//! The part of a Pod's spec that amounts are counted from, read from the map it is stored as.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde_json::{Map, Value};

/// Containers with their resources, and what the Pod itself states; everything else is left empty.
pub fn slim_spec(spec: &Map<String, Value>) -> PodSpec {
    let inits = containers(spec.get("initContainers"));
    PodSpec {
        containers: containers(spec.get("containers")),
        init_containers: (!inits.is_empty()).then_some(inits),
        overhead: amounts(spec.get("overhead")),
        resources: spec.get("resources").and_then(resources),
        ..PodSpec::default()
    }
}

fn containers(list: Option<&Value>) -> Vec<Container> {
    let text = |of: &Value, field: &str| of.get(field).and_then(Value::as_str).map(str::to_owned);
    let read = |container: &Value| Container {
        name: text(container, "name").unwrap_or_default(),
        restart_policy: text(container, "restartPolicy"),
        resources: container.get("resources").and_then(resources),
        ..Container::default()
    };
    list.and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

fn resources(value: &Value) -> Option<ResourceRequirements> {
    let of = value.as_object()?;
    Some(ResourceRequirements {
        requests: amounts(of.get("requests")),
        limits: amounts(of.get("limits")),
        ..ResourceRequirements::default()
    })
}

/// Clients may write an amount as a number.
fn amounts(value: Option<&Value>) -> Option<BTreeMap<String, Text>> {
    let read = |(name, amount): (&String, &Value)| match amount {
        Value::String(text) => Some((name.clone(), Text(text.clone()))),
        Value::Number(number) => Some((name.clone(), Text(number.to_string()))),
        _ => None,
    };
    Some(value?.as_object()?.iter().filter_map(read).collect())
}
