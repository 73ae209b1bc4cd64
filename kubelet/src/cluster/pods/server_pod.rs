//! A pod as the API server stores it, reduced to what this node needs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::ObjectName;
use apiserver::auth::nodes::references::{MIRROR, of_pod};
use apiserver::auth::nodes::{Kind, Object};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::Deserialize as _;
use serde_json::Value;

use crate::desired::SourceKind;
use crate::observed::PodUid;

/// The annotation that names the source of a pod.
const SOURCE: &str = "kubernetes.io/config.source";
/// A version this far ahead of the last one means that the API server was restored. A restore raises the revision
/// by 1,000,000,000, so that no version is used twice. The option `etcdutl snapshot restore --bump-revision` does
/// the same.
const MIN_RESTORE_LEAP: u64 = 500_000_000;
/// Longest UID and name, because they are part of file names.
const MAX_NAME_BYTES: usize = 253;

/// A pod of the API server.
#[derive(Clone, Debug)]
pub struct ServerPod {
    /// The UID on the API server.
    pub uid: PodUid,
    /// Kind, namespace and name.
    pub name: ObjectName,
    /// The `resourceVersion`, if it is a number.
    pub version: Option<u64>,
    /// The status on the API server.
    pub status: PodStatus,
    /// The pod to run, or the reason why it cannot be parsed.
    pub pod: Result<Arc<Pod>, String>,
    /// The ConfigMaps and Secrets that it references.
    pub references: BTreeSet<Object>,
    /// Whether the node runs the pod: it is not a mirror pod and has no scheduling gates.
    pub is_runnable: bool,
    /// For a mirror pod, the hash of its static pod.
    pub mirror: Option<String>,
    /// Whether it has a deletion timestamp.
    pub is_terminating: bool,
}

impl ServerPod {
    /// Parses a pod. Returns `None` for pods of other nodes and for unsafe names or UIDs.
    pub fn read(value: Value, node: &str) -> Option<Self> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (uid, own) = (text("/metadata/uid"), [text("/metadata/namespace"), text("/metadata/name")]);
        if !is_safe(uid) || !own.iter().all(|part| is_safe(part)) || text("/spec/nodeName") != node {
            return None;
        }
        let gates = value.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let is_ungated = gates.is_none_or(Vec::is_empty);
        let mirror = value.pointer("/metadata/annotations").and_then(|all| all.get(MIRROR));
        let mirror = mirror.map(|hash| hash.as_str().unwrap_or_default().to_owned());
        let is_terminating = !text("/metadata/deletionTimestamp").is_empty();
        let [namespace, name] = own.map(str::to_owned);
        Some(Self {
            uid: PodUid::new(uid),
            name: ObjectName { kind: "Pod".to_owned(), namespace, name },
            version: version(&value),
            references: references(&value),
            is_runnable: is_ungated && mirror.is_none(),
            mirror,
            is_terminating,
            status: value
                .get("status")
                .and_then(|status| PodStatus::deserialize(status).ok())
                .unwrap_or_default(),
            pod: Pod::deserialize(value)
                .map(|pod| Arc::new(relevant_fields(pod)))
                .map_err(|error| error.to_string()),
        })
    }

    /// The generation of the spec, if the API server counts generations of pods.
    pub fn generation(&self) -> Option<i64> {
        self.pod.as_ref().ok()?.metadata.generation
    }

    /// Whether the phase on the API server is terminal.
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.status)
    }
}

/// Whether the phase is `Succeeded` or `Failed`.
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// The `resourceVersion` of an object or list, if it is a number.
pub fn version(value: &Value) -> Option<u64> {
    value.pointer("/metadata/resourceVersion").and_then(Value::as_str)?.parse().ok()
}

/// Whether the server was restored from a backup, given its version now and the last version seen.
pub fn is_restored(seen: Option<u64>, now: Option<u64>) -> bool {
    seen.zip(now).is_some_and(|(seen, now)| now < seen || now - seen >= MIN_RESTORE_LEAP)
}

/// The ConfigMaps and Secrets that a pod references.
pub fn references(pod: &Value) -> BTreeSet<Object> {
    let all = pod.as_object().map(of_pod).unwrap_or_default().into_iter();
    let is_one = |object: &Object| {
        matches!(object.kind, Kind::ConfigMap | Kind::Secret)
            && is_safe(&object.namespace)
            && is_safe(&object.name)
    };
    all.filter(is_one).collect()
}

/// Drops the fields that change with every write. Of the status, only the conditions of readiness gates stay.
fn relevant_fields(mut pod: Pod) -> Pod {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let gates: BTreeSet<String> = gates.map(|gate| gate.condition_type.clone()).collect();
    pod.status = pod.status.take().filter(|_| !gates.is_empty()).map(|status| {
        let mut conditions = status.conditions.unwrap_or_default();
        conditions.retain(|condition| gates.contains(&condition.type_));
        PodStatus { conditions: Some(conditions), ..PodStatus::default() }
    });
    let metadata = &mut pod.metadata;
    metadata.managed_fields = None;
    metadata.resource_version = None;
    let annotations: &mut BTreeMap<_, _> = metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE.to_owned(), SourceKind::Api.as_str().to_owned());
    pod
}

/// Whether the text is safe as part of a path.
pub fn is_safe(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}
