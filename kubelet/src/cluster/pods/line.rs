//! A pod as the API has it: what of it this node goes by. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::ObjectName;
use apiserver::auth::nodes::names::{MIRROR, of_pod};
use apiserver::auth::nodes::{Kind, Object};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::Deserialize as _;
use serde_json::Value;

use crate::desired::SourceKind;
use crate::observed::PodUid;

/// The annotation that names the source of a pod.
const SOURCE: &str = "kubernetes.io/config.source";
/// From one version to a later one that far away there is no way but by a restore, which leaps so that no version means two things: by a
/// billion, here and with `etcdutl snapshot restore --bump-revision`.
const LEAP: u64 = 500_000_000;
/// Longest UID and name: they are parts of file names.
const LONGEST: usize = 253;

/// One pod.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its identity, the API's.
    pub uid: PodUid,
    /// Its name.
    pub name: ObjectName,
    /// Which version of the API's store this is, where that is a number.
    pub version: Option<u64>,
    /// What it was told of it.
    pub status: PodStatus,
    /// What is to run; why it does not read, where that is so.
    pub pod: Result<Arc<Pod>, String>,
    /// The ConfigMaps and Secrets that it names.
    pub refers: BTreeSet<Object>,
    /// Whether it is one to run here: neither the image of a pod that this node has from elsewhere, nor one that others have yet to
    /// finish.
    pub is_to_run: bool,
    /// Of the image of a pod that this node has from elsewhere, the hash of that.
    pub mirror: Option<String>,
    /// Whether it is to go.
    pub is_doomed: bool,
}

impl Line {
    /// Reads a pod of that node; `None` for one that is not, or is nobody.
    pub fn read(value: Value, node: &str) -> Option<Self> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (uid, own) = (text("/metadata/uid"), [text("/metadata/namespace"), text("/metadata/name")]);
        if !is_safe(uid) || !own.iter().all(|part| is_safe(part)) || text("/spec/nodeName") != node {
            return None;
        }
        let gates = value.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let is_finished = gates.is_none_or(Vec::is_empty);
        let mirror = value.pointer("/metadata/annotations").and_then(|all| all.get(MIRROR));
        let mirror = mirror.map(|hash| hash.as_str().unwrap_or_default().to_owned());
        let is_doomed = !text("/metadata/deletionTimestamp").is_empty();
        let [namespace, name] = own.map(str::to_owned);
        Some(Self {
            uid: PodUid::new(uid),
            name: ObjectName { kind: "Pod".to_owned(), namespace, name },
            version: version(&value),
            refers: refers(&value),
            is_to_run: is_finished && mirror.is_none(),
            mirror,
            is_doomed,
            status: value
                .get("status")
                .and_then(|status| PodStatus::deserialize(status).ok())
                .unwrap_or_default(),
            pod: Pod::deserialize(value).map(|pod| Arc::new(kept(pod))).map_err(|error| error.to_string()),
        })
    }

    /// Whether it has come to its end by what the API says.
    pub fn is_over(&self) -> bool {
        is_over(&self.status)
    }
}

/// Whether a pod has come to its end by that status.
pub fn is_over(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// The version of an object or a list, where it is a number.
pub fn version(value: &Value) -> Option<u64> {
    value.pointer("/metadata/resourceVersion").and_then(Value::as_str)?.parse().ok()
}

/// Whether a server that is at the one version now, after it was seen at the other, has lost what came last: it was restored.
pub fn is_restored(seen: Option<u64>, now: Option<u64>) -> bool {
    seen.zip(now).is_some_and(|(seen, now)| now < seen || now - seen >= LEAP)
}

/// The ConfigMaps and Secrets that a pod names.
pub fn refers(pod: &Value) -> BTreeSet<Object> {
    let all = pod.as_object().map(of_pod).unwrap_or_default().into_iter();
    let is_one = |object: &Object| {
        matches!(object.kind, Kind::ConfigMap | Kind::Secret)
            && is_safe(&object.namespace)
            && is_safe(&object.name)
    };
    all.filter(is_one).collect()
}

/// What the node goes by: nothing that changes with every write, and of the status what the pod's readiness waits for.
fn kept(mut pod: Pod) -> Pod {
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

/// True for a text that is safe as part of a path.
pub fn is_safe(text: &str) -> bool {
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}
