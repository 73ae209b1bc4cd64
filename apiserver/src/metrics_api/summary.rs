//! Parses the kubelet's stats summary and computes NodeMetrics and PodMetrics. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::resources::{GROUP, VERSION};
use crate::object::Object;

/// A JSON object.
pub type Json = Map<String, Value>;

/// The parts of the kubelet's stats summary that are used.
#[derive(Clone, Debug, Deserialize)]
pub struct Counts {
    node: StatsEntry,
    #[serde(default, deserialize_with = "null_as_default")]
    pods: Vec<Pod>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod {
    pod_ref: Reference,
    #[serde(default, deserialize_with = "null_as_default")]
    containers: Vec<StatsEntry>,
}

#[derive(Clone, Debug, Deserialize)]
struct Reference {
    name: String,
    namespace: String,
}

/// Stats of the node or of a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatsEntry {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    /// When the node or container started. The counters restart at that time.
    #[serde(default, deserialize_with = "null_as_default")]
    start_time: String,
    #[serde(default, deserialize_with = "null_as_default")]
    cpu: CpuStats,
    #[serde(default, deserialize_with = "null_as_default")]
    memory: Memory,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CpuStats {
    usage_core_nano_seconds: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Memory {
    working_set_bytes: u64,
}

/// Reads `null` as the default value. The stock kubelet reports `null` for unknown values.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// The metadata of a pod or a node that its metrics object repeats.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Subject {
    name: String,
    namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    labels: BTreeMap<String, String>,
}

impl Subject {
    /// The metadata of an object.
    pub fn of(object: &Object) -> Self {
        #[derive(Deserialize)]
        struct Partial {
            metadata: Subject,
        }
        serde_json::from_slice(object.json())
            .map_or_else(|_| Self::default(), |partial: Partial| partial.metadata)
    }
}

/// Two samples of a node.
#[derive(Clone, Debug)]
pub struct Window {
    /// The earlier sample.
    pub before: Arc<Counts>,
    /// The later sample.
    pub now: Arc<Counts>,
    /// Time between the samples.
    pub duration: Duration,
    /// Time of the later sample.
    pub end: Timestamp,
}

/// The NodeMetrics of a node.
pub fn node_metrics_object(node: &Subject, window: &Window) -> Json {
    let usage = window.usage(Some(&window.before.node), &window.now.node);
    window.object("NodeMetrics", node, ("usage", usage))
}

/// The PodMetrics of a pod. `None` if no container is running.
pub fn pod_metrics_object(pod: &Subject, window: &Window) -> Option<Json> {
    let before = window.before.containers(pod).unwrap_or_default();
    let usage = |now: &StatsEntry| window.usage(before.iter().find(|before| before.name == now.name), now);
    let containers = window.now.containers(pod)?.iter();
    let containers: Vec<_> = containers.map(|now| json!({"name": now.name, "usage": usage(now)})).collect();
    (!containers.is_empty()).then(|| window.object("PodMetrics", pod, ("containers", containers.into())))
}

impl Counts {
    /// The running containers of a pod.
    fn containers(&self, pod: &Subject) -> Option<&[StatsEntry]> {
        let is_it = |of: &&Pod| *of.pod_ref.name == *pod.name && *of.pod_ref.namespace == *pod.namespace;
        Some(&self.pods.iter().find(is_it)?.containers)
    }
}

impl Window {
    /// CPU usage per second, and memory at the end of the window.
    fn usage(&self, before: Option<&StatsEntry>, now: &StatsEntry) -> Value {
        // A container that started within the window has accumulated all of its CPU time in it.
        let before = before.filter(|before| before.start_time == now.start_time);
        let before = before.map_or(0, |before| before.cpu.usage_core_nano_seconds);
        let used = now.cpu.usage_core_nano_seconds.saturating_sub(before);
        let duration = self.duration.as_millis().max(1);
        let nanocores = u128::from(used) * 1000 / duration;
        json!({"cpu": format!("{nanocores}n"), "memory": format!("{}Ki", now.memory.working_set_bytes / 1024)})
    }

    fn object(&self, kind: &str, of: &Subject, own: (&str, Value)) -> Json {
        let time = api::time::seconds(self.end);
        let mut metadata = json!({"name": of.name, "creationTimestamp": time});
        if !of.namespace.is_empty() {
            metadata["namespace"] = Value::from(&*of.namespace);
        }
        if !of.labels.is_empty() {
            metadata["labels"] = json!(of.labels);
        }
        Map::from_iter([
            ("kind".to_owned(), kind.into()),
            ("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into()),
            ("metadata".to_owned(), metadata),
            ("timestamp".to_owned(), time.into()),
            ("window".to_owned(), format!("{:.3}s", self.duration.as_secs_f64()).into()),
            (own.0.to_owned(), own.1),
        ])
    }
}
