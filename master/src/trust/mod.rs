//! Node trust: decides which nodes may run pods, by the configured admission mode. Pure.
//!
//! Registered, Ready and trusted are independent. A node registers when it creates its Node object, and reports its
//! own readiness. The master decides on trust, and records the decision as a condition and a taint.

use std::net::IpAddr;

use api::strategy::Json;
use apiserver::Identity;
pub use apiserver::auth::nodes::keys::KEYS;
use apiserver::auth::nodes::keys::{MAX_KEYS, of_node};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::objects::node::{NodeSpec, NodeSystemInfo};
use crate::objects::pod::PodSpec;
use crate::objects::{self, AnnotatedObject, Condition, List, ObjectMeta, Spec, StringMap, Taint};
use crate::options::{NodeAdmission, NodeMode, is_within};

/// Prefix of annotations that nodes may not write.
pub const ANNOTATION_PREFIX: &str = "coracle.io/";
/// Annotation with the address from which the node registered.
pub const REGISTERED_FROM: &str = "coracle.io/registered-from";
/// Annotation by which an administrator overrides the decision: `true` or `false`.
pub const TRUSTED: &str = "coracle.io/trusted";
/// Annotation with the CA that signed the client certificate of the node's last write.
pub const SIGNED_BY: &str = "coracle.io/signed-by";
/// Annotation of a Node that was created for a machine that has not registered yet. It reserves the name and the
/// key.
pub const RESERVED: &str = "coracle.io/reserved";
/// The condition type.
pub const CONDITION: &str = "Trusted";
/// The taint of untrusted nodes, and its effect.
pub const TAINT: &str = "coracle.io/untrusted";
const EFFECT: &str = "NoSchedule";
/// Length of a SHA-256 digest in hex.
const DIGEST: usize = 64;

/// The fields of a Node on which trust depends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: ObjectMeta<StringMap>,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeStatus {
    conditions: List<Condition>,
    node_info: NodeSystemInfo,
}

impl Node {
    /// The value of an annotation; empty if there is none.
    fn annotation(&self, name: &str) -> &str {
        self.metadata.annotations.get(name).unwrap_or_default()
    }

    /// True if an earlier decision was written.
    fn is_marked(&self) -> bool {
        self.spec.taints.iter().any(is_ours) || self.status.conditions.of_type(CONDITION).is_some()
    }
}

/// The trust decision for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Whether the node is trusted.
    pub holds: bool,
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: String,
}

/// Checks whether a node may register from this address. The API server has already checked the client certificate.
///
/// # Errors
/// If the node may not register from the address. The error is the reason, as the end of a message.
pub fn admit(wanted: &NodeAdmission, peer: Option<IpAddr>) -> Result<(), String> {
    match wanted.mode {
        NodeMode::Allowlist if !is_listed(wanted, peer) => {
            let from = peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string());
            Err(format!("{from} is in none of the networks from which nodes may register (--node-allowlist)"))
        }
        // The registered key was checked at authentication.
        NodeMode::Allowlist | NodeMode::Certificate | NodeMode::Open => Ok(()),
    }
}

/// Records the address and the certificate of a registering node. They replace values that the node wrote itself.
pub fn record_registration(node: &mut Json, who: &Identity) {
    let Some(annotations) = annotations(node) else { return };
    annotations.retain(|name, _| !name.starts_with(ANNOTATION_PREFIX));
    let from = who.peer.map(|peer| peer.to_string());
    let recorded = [(REGISTERED_FROM, from), (KEYS, who.key.clone()), (SIGNED_BY, who.signed_by.clone())];
    annotations
        .extend(recorded.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
}

/// True if the signer of the node's client certificate differs from the recorded one. Nodes without a client
/// certificate have none.
pub fn has_new_signer(node: &Json, who: &Identity) -> bool {
    let Some(signer) = &who.signed_by else { return false };
    let AnnotatedObject { metadata } = objects::read(node);
    metadata.annotations.get(SIGNED_BY) != Some(signer.as_str())
}

/// Records the signer of the node's client certificate.
pub fn record_signer(node: &mut Json, who: &Identity) {
    if let (Some(signer), Some(annotations)) = (&who.signed_by, annotations(node)) {
        annotations.insert(SIGNED_BY.to_owned(), signer.as_str().into());
    }
}

/// True for a reserved Node that no kubelet has updated yet.
pub fn is_reserved(node: &Json) -> bool {
    let node: Node = objects::read(node);
    let version = &node.status.node_info.kubelet_version;
    !node.annotation(RESERVED).is_empty() && version.is_empty() && !node.metadata.is_terminating()
}

/// Merges a reserved Node into the registering one. The reserved keys are kept, and fields that users have set take
/// precedence.
pub fn adopt_reserved(node: &mut Json, reserved: &Json) {
    let own = of_node(node).next().map(str::to_owned);
    let fields = |name: &str| reserved.get("metadata").and_then(|metadata| metadata.get(name)?.as_object());
    if let Some(annotations) = annotations(node) {
        for (name, value) in fields("annotations").into_iter().flatten() {
            match name.as_str() {
                RESERVED | REGISTERED_FROM | SIGNED_BY => continue,
                KEYS => {
                    let keys = own.as_deref().map(|key| with_key(reserved, key, true));
                    annotations.insert(name.clone(), keys.map_or_else(|| value.clone(), Value::from));
                }
                _ => drop(annotations.insert(name.clone(), value.clone())),
            }
        }
    }
    let labels = part(node, "metadata").and_then(|metadata| part(metadata, "labels"));
    if let (Some(labels), Some(written)) = (labels, fields("labels")) {
        labels.extend(written.clone());
    }
    if let (Some(metadata), Some(written)) =
        (part(node, "metadata"), reserved.get("metadata").and_then(Value::as_object))
    {
        let kept = ["finalizers", "ownerReferences"].into_iter();
        metadata.extend(kept.filter_map(|name| Some((name.to_owned(), written.get(name)?.clone()))));
    }
    let Some(written) = reserved.get("spec").and_then(Value::as_object) else { return };
    let Some(spec) = part(node, "spec") else { return };
    // The node IPAM controller has allocated these, and they are immutable.
    let kept = ["podCIDR", "podCIDRs", "providerID"].into_iter();
    spec.extend(kept.filter_map(|name| Some((name.to_owned(), written.get(name)?.clone()))));
    if written.get("unschedulable") == Some(&true.into()) {
        spec.insert("unschedulable".to_owned(), true.into());
    }
    let kept = written.get("taints").and_then(Value::as_array).into_iter().flatten();
    let kept: Vec<Value> = kept.filter(|taint| !is_ours_in_json(taint)).cloned().collect();
    if let (false, Some(taints)) = (kept.is_empty(), list(spec, "taints")) {
        let field = |taint: &Value, name: &str| text(taint.get(name)).to_owned();
        let is_one = |one: &Value, other: &Value| {
            ["key", "effect"].iter().all(|name| field(one, name) == field(other, name))
        };
        taints.retain(|taint| !kept.iter().any(|kept| is_one(kept, taint)));
        taints.extend(kept);
    }
}

/// The keys of a Node with one more key, newest first and limited in number. If another user requested the
/// certificate, the machine was replaced, and the old keys are dropped.
pub fn with_key(node: &Json, key: &str, is_own_request: bool) -> String {
    let before = of_node(node).filter(|other| is_own_request && *other != key);
    std::iter::once(key).chain(before).take(MAX_KEYS).collect::<Vec<_>>().join(",")
}

/// The first invalid annotation of a Node: its name, its value, and the text that says which values are valid.
pub fn invalid_annotation(node: &Json) -> Option<(&'static str, String, &'static str)> {
    let AnnotatedObject { metadata } = objects::read(node);
    let declared = metadata.annotations.get(TRUSTED).unwrap_or_default();
    if !matches!(declared, "" | "true" | "false") {
        return Some((TRUSTED, format!("{declared:?}"), "must be \"true\" or \"false\""));
    }
    let is_digest = |key: &str| key.len() == DIGEST && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let wrong = of_node(node).find(|key| !is_digest(key))?;
    Some((
        KEYS,
        format!("{wrong:?}"),
        "must be SHA-256 digests of public keys, 64 hexadecimal digits each, with commas between",
    ))
}

/// Decides whether a Node is trusted. In open mode, `None` if no decision was recorded for it.
pub fn evaluate(wanted: &NodeAdmission, node: &Json) -> Option<Trust> {
    let has_key = of_node(node).next().is_some();
    let node: Node = objects::read(node);
    let trust = |holds: bool, reason: &'static str, message: String| Some(Trust { holds, reason, message });
    match node.annotation(TRUSTED) {
        "" => {}
        "true" => return trust(true, "Declared", format!("an administrator set {TRUSTED}")),
        // Only `false` passes validation. Invalid values from before validation count as `false`.
        _ => return trust(false, "Declared", format!("an administrator set {TRUSTED}")),
    }
    let from = node.annotation(REGISTERED_FROM);
    match wanted.mode {
        NodeMode::Open if from.is_empty() && !has_key && !node.is_marked() => None,
        NodeMode::Open => {
            trust(true, "Open", "every node with a certificate is trusted (--node-admission open)".to_owned())
        }
        NodeMode::Allowlist if is_listed(wanted, from.parse().ok()) => trust(
            true,
            "Listed",
            format!("it registered from {from}, which is on the allowlist (--node-allowlist)"),
        ),
        NodeMode::Allowlist => {
            let from = if from.is_empty() { "an unknown address" } else { from };
            trust(
                false,
                "NotListed",
                format!("it registered from {from}, which is not on the allowlist (--node-allowlist)"),
            )
        }
        NodeMode::Certificate if has_key => {
            trust(true, "KeyRegistered", "the key of its certificate is registered".to_owned())
        }
        NodeMode::Certificate => {
            let why =
                format!("no key is registered: approve a certificate request of the node, or set {KEYS}");
            trust(false, "NoKey", why)
        }
    }
}

/// Writes the decision into a Node as a condition and a taint. Returns false if nothing changed.
pub fn apply(node: &mut Json, trust: &Trust, now: Timestamp) -> bool {
    let is_tainted = apply_taint(node, trust);
    apply_condition(node, trust, now) || is_tainted
}

/// Adds or removes the taint.
fn apply_taint(node: &mut Json, trust: &Trust) -> bool {
    if is_tainted(node) != trust.holds {
        return false;
    }
    let Some(taints) = part(node, "spec").and_then(|spec| list(spec, "taints")) else { return false };
    if trust.holds {
        taints.retain(|taint| !is_ours_in_json(taint));
    } else {
        taints.push(json!({"key": TAINT, "effect": EFFECT}));
    }
    true
}

/// Updates the condition.
fn apply_condition(node: &mut Json, trust: &Trust, now: Timestamp) -> bool {
    let status = if trust.holds { "True" } else { "False" };
    let found = objects::read::<Node>(node);
    let found = found.status.conditions.of_type(CONDITION);
    if found.is_some_and(|found| {
        (&*found.status, &*found.reason, &*found.message) == (status, trust.reason, &*trust.message)
    }) {
        return false;
    }
    let unchanged =
        found.filter(|found| &*found.status == status).and_then(|found| found.last_transition_time);
    let since = api::time::seconds(unchanged.unwrap_or(now));
    let now = api::time::seconds(now);
    let wanted = json!({
        "type": CONDITION, "status": status, "reason": trust.reason, "message": trust.message,
        "lastTransitionTime": since, "lastHeartbeatTime": now,
    });
    set_condition(node, Some(wanted));
    true
}

/// Restores the condition after an update by the node.
pub fn restore_condition(node: &mut Json, old: &Json) {
    if condition(node) != condition(old) {
        set_condition(node, condition(old));
    }
}

/// True if the Node has the taint of untrusted nodes.
pub fn is_tainted(node: &Json) -> bool {
    objects::read::<Spec<NodeSpec>>(node).spec.taints.iter().any(is_ours)
}

/// True if the pod tolerates this taint.
pub fn tolerates(pod: &Json) -> bool {
    let taint = Taint { key: TAINT.into(), effect: EFFECT.into(), ..Taint::default() };
    objects::read::<Spec<PodSpec>>(pod).spec.tolerations.tolerate(&taint)
}

fn annotations(node: &mut Json) -> Option<&mut Json> {
    part(node, "metadata").and_then(|metadata| part(metadata, "annotations"))
}

fn is_listed(wanted: &NodeAdmission, from: Option<IpAddr>) -> bool {
    from.is_some_and(|from| wanted.allowlist.iter().any(|(network, bits)| is_within(from, *network, *bits)))
}

fn is_ours(taint: &Taint) -> bool {
    &*taint.key == TAINT
}

fn is_ours_in_json(taint: &Value) -> bool {
    text(taint.get("key")) == TAINT
}

fn condition(node: &Json) -> Option<Value> {
    let all = node.get("status").and_then(|status| status.get("conditions")?.as_array());
    all.into_iter().flatten().find(|condition| text(condition.get("type")) == CONDITION).cloned()
}

fn set_condition(node: &mut Json, wanted: Option<Value>) {
    let Some(all) = part(node, "status").and_then(|status| list(status, "conditions")) else { return };
    all.retain(|condition| text(condition.get("type")) != CONDITION);
    all.extend(wanted);
}

/// Returns a field that is an object, created if it is missing. `None` if it has another type, which validation
/// rejects.
fn part<'a>(of: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    let value = of.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

fn list<'a>(of: &'a mut Json, name: &str) -> Option<&'a mut Vec<Value>> {
    let value = of.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut()
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
