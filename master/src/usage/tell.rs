//! From what a node has counted to objects. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::kinds::{GROUP, VERSION};

/// An object.
pub type Told = Map<String, Value>;

/// What a node has counted: the parts of the stock kubelet's summary that are needed.
#[derive(Clone, Debug, Deserialize)]
pub struct Counts {
    node: Part,
    #[serde(default, deserialize_with = "or_nothing")]
    pods: Vec<Pod>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod {
    pod_ref: Reference,
    #[serde(default, deserialize_with = "or_nothing")]
    containers: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
struct Reference {
    name: String,
    namespace: String,
}

/// The node, or a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default, deserialize_with = "or_nothing")]
    name: String,
    /// What is counted begins anew with it.
    #[serde(default, deserialize_with = "or_nothing")]
    start_time: String,
    #[serde(default, deserialize_with = "or_nothing")]
    cpu: Processor,
    #[serde(default, deserialize_with = "or_nothing")]
    memory: Memory,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Processor {
    usage_core_nano_seconds: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Memory {
    working_set_bytes: u64,
}

/// A stock kubelet says `null` of what it knows nothing of.
fn or_nothing<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// What was counted between two answers of a node.
#[derive(Clone, Debug)]
pub struct Window {
    /// The first.
    pub before: Arc<Counts>,
    /// The second.
    pub now: Arc<Counts>,
    /// From one to the other.
    pub lasts: Duration,
}

/// What a node uses.
pub fn of_node(node: &Told, window: &Window, at_end: Timestamp) -> Told {
    let usage = window.usage(Some(&window.before.node), &window.now.node);
    window.object("NodeMetrics", node, at_end, ("usage", usage))
}

/// What the containers of a pod use; none when none of them runs.
pub fn of_pod(pod: &Told, window: &Window, at_end: Timestamp) -> Option<Told> {
    let before = window.before.containers(pod).unwrap_or_default();
    let usage = |now: &Part| window.usage(before.iter().find(|before| before.name == now.name), now);
    let containers = window.now.containers(pod)?.iter();
    let containers: Vec<_> = containers.map(|now| json!({"name": now.name, "usage": usage(now)})).collect();
    (!containers.is_empty())
        .then(|| window.object("PodMetrics", pod, at_end, ("containers", containers.into())))
}

/// Whether nothing has been heard of a node for long.
pub fn is_silent(node: &Told) -> bool {
    let conditions = node.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.is_some_and(|ready| ready["status"] == "Unknown")
}

/// What an object is called.
pub fn name(object: &Told) -> &str {
    metadata(object, "name")
}

fn metadata<'a>(object: &'a Told, field: &str) -> &'a str {
    object.get("metadata").and_then(|of| of.get(field)).and_then(Value::as_str).unwrap_or_default()
}

impl Counts {
    /// The containers of a pod that run.
    fn containers(&self, pod: &Told) -> Option<&[Part]> {
        let (namespace, name) = (metadata(pod, "namespace"), metadata(pod, "name"));
        let is_it = |of: &&Pod| of.pod_ref.name == name && of.pod_ref.namespace == namespace;
        Some(&self.pods.iter().find(is_it)?.containers)
    }
}

impl Window {
    /// Processor time a second, and memory at the end.
    fn usage(&self, before: Option<&Part>, now: &Part) -> Value {
        // What has begun since then has used all that is counted of it since then.
        let before = before.filter(|before| before.start_time == now.start_time);
        let before = before.map_or(0, |before| before.cpu.usage_core_nano_seconds);
        let used = now.cpu.usage_core_nano_seconds.saturating_sub(before);
        let lasts = self.lasts.as_millis().max(1);
        let nanocores = u128::from(used) * 1000 / lasts;
        json!({"cpu": format!("{nanocores}n"), "memory": format!("{}Ki", now.memory.working_set_bytes / 1024)})
    }

    fn object(&self, kind: &str, of: &Told, at_end: Timestamp, own: (&str, Value)) -> Told {
        let time = api::time::seconds(at_end);
        let mut metadata = Map::new();
        for field in ["name", "namespace", "labels"] {
            if let Some(value) = of.get("metadata").and_then(|of| of.get(field)) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        metadata.insert("creationTimestamp".to_owned(), time.as_str().into());
        Map::from_iter([
            ("kind".to_owned(), kind.into()),
            ("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into()),
            ("metadata".to_owned(), metadata.into()),
            ("timestamp".to_owned(), time.into()),
            ("window".to_owned(), format!("{:.3}s", self.lasts.as_secs_f64()).into()),
            (own.0.to_owned(), own.1),
        ])
    }
}
