//! Which nodes are trusted to take work: what is noted of one when it registers, and what follows by the mode of the master. Pure.
//!
//! Registered, ready and trusted are three things. A node registers itself by making its Node, and says itself whether it is
//! ready; whether it is trusted is said here, as a condition for people to read and a taint for what gives pods to nodes.

use std::net::IpAddr;

use api::strategy::Json;
use apiserver::Identity;
pub use apiserver::auth::nodes::keys::KEYS;
use apiserver::auth::nodes::keys::{MOST_KEYS, of_node};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::options::{NodeAdmission, NodeMode, is_within};

/// What annotations begin with that no node writes.
pub const OURS: &str = "coracle.io/";
/// The annotation that says from where a node registered.
pub const FROM: &str = "coracle.io/registered-from";
/// The annotation by which an administrator says it himself: `true` or `false`.
pub const DECLARED: &str = "coracle.io/trusted";
/// The annotation that says which authority has signed the certificate that the node showed last when it wrote its Node.
pub const SIGNED_BY: &str = "coracle.io/signed-by";
/// The annotation of a Node that the master has made for a machine that has not registered yet: it keeps the place, and the key.
pub const RESERVED: &str = "coracle.io/reserved";
/// The condition.
pub const CONDITION: &str = "Trusted";
/// The taint of nodes of which it does not hold, and what it does to pods that do not tolerate it.
pub const TAINT: &str = "coracle.io/untrusted";
const EFFECT: &str = "NoSchedule";
/// Digits of a key's SHA-256.
const DIGEST: usize = 64;

/// Whether a node is trusted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// It is.
    pub holds: bool,
    /// A word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Why a node may not register from there; who shows no certificate of a node has been asked about already.
///
/// # Errors
/// The end of a sentence.
pub fn admit(wanted: &NodeAdmission, peer: Option<IpAddr>) -> Result<(), String> {
    match wanted.mode {
        NodeMode::Allowlist if !is_listed(wanted, peer) => {
            let from = peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string());
            Err(format!("{from} is in none of the networks that nodes register from (--node-allowlist)"))
        }
        // That its key is known was asked before the request came here.
        NodeMode::Allowlist | NodeMode::Certificate | NodeMode::Open => Ok(()),
    }
}

/// Notes at a Node from where it registered and by which certificate it was known, in place of whatever is noted there.
pub fn note(node: &mut Json, who: &Identity) {
    let Some(annotations) = annotations(node) else { return };
    annotations.retain(|name, _| !name.starts_with(OURS));
    let from = who.peer.map(|peer| peer.to_string());
    let noted = [(FROM, from), (KEYS, who.key.clone()), (SIGNED_BY, who.signed_by.clone())];
    annotations.extend(noted.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
}

/// Whether it is not noted yet who signed the certificate that a node shows; who was known by something else shows none.
pub fn is_signed_anew(node: &Json, who: &Identity) -> bool {
    who.signed_by.as_deref().is_some_and(|signer| signer != noted(node, SIGNED_BY))
}

/// Notes that.
pub fn note_signer(node: &mut Json, who: &Identity) {
    if let (Some(signer), Some(annotations)) = (&who.signed_by, annotations(node)) {
        annotations.insert(SIGNED_BY.to_owned(), signer.as_str().into());
    }
}

/// Whether a Node only keeps the place of one that a machine has still to make: no kubelet has said anything of it.
pub fn is_reserved(node: &Json) -> bool {
    let version = node.get("status").and_then(|status| status.get("nodeInfo")?.get("kubeletVersion"));
    let is_leaving = node.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some());
    !noted(node, RESERVED).is_empty() && text(version).is_empty() && !is_leaving
}

/// Makes a Node that registers the one whose place was kept: its keys go on, and what people have written there has the last word.
pub fn take_over(node: &mut Json, reserved: &Json) {
    let own = of_node(node).next().map(str::to_owned);
    let fields = |name: &str| reserved.get("metadata").and_then(|metadata| metadata.get(name)?.as_object());
    if let Some(annotations) = annotations(node) {
        for (name, value) in fields("annotations").into_iter().flatten() {
            match name.as_str() {
                RESERVED | FROM | SIGNED_BY => continue,
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
    // Whoever hands these out has done so, and they never change.
    let kept = ["podCIDR", "podCIDRs", "providerID"].into_iter();
    spec.extend(kept.filter_map(|name| Some((name.to_owned(), written.get(name)?.clone()))));
    if written.get("unschedulable") == Some(&true.into()) {
        spec.insert("unschedulable".to_owned(), true.into());
    }
    let kept = written.get("taints").and_then(Value::as_array).into_iter().flatten();
    let kept: Vec<Value> = kept.filter(|taint| !is_ours(taint)).cloned().collect();
    if let (false, Some(taints)) = (kept.is_empty(), list(spec, "taints")) {
        let says = |taint: &Value, name: &str| text(taint.get(name)).to_owned();
        let is_one = |one: &Value, other: &Value| {
            ["key", "effect"].iter().all(|name| says(one, name) == says(other, name))
        };
        taints.retain(|taint| !kept.iter().any(|kept| is_one(kept, taint)));
        taints.extend(kept);
    }
}

/// The keys of a Node with one more: the newest first, the oldest go. Where somebody else asked for it than the node itself, the
/// machine is another one, and its keys are no more.
pub fn with_key(node: &Json, key: &str, asked_by_itself: bool) -> String {
    let before = of_node(node).filter(|other| asked_by_itself && *other != key);
    std::iter::once(key).chain(before).take(MOST_KEYS).collect::<Vec<_>>().join(",")
}

/// What people have written at a Node that means nothing: the annotation, what it says, and what it should be.
pub fn nonsense(node: &Json) -> Option<(&'static str, String, &'static str)> {
    let declared = noted(node, DECLARED);
    if !matches!(declared, "" | "true" | "false") {
        return Some((DECLARED, format!("{declared:?}"), "must be \"true\" or \"false\""));
    }
    let is_digest = |key: &str| key.len() == DIGEST && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let wrong = of_node(node).find(|key| !is_digest(key))?;
    Some((
        KEYS,
        format!("{wrong:?}"),
        "must be SHA-256 digests of public keys, 64 hexadecimal digits each, with commas between",
    ))
}

/// Whether a Node is trusted; nothing of one of which nothing was ever noted, where everybody is.
pub fn judge(wanted: &NodeAdmission, node: &Json) -> Option<Trust> {
    let noted = |name: &str| noted(node, name);
    let trust = |holds: bool, reason: &'static str, message: String| Some(Trust { holds, reason, message });
    match noted(DECLARED) {
        "" => {}
        "true" => return trust(true, "Declared", format!("an administrator says so by {DECLARED}")),
        // Nobody writes anything but `false`; what was written before that was looked at is no praise.
        _ => return trust(false, "Declared", format!("an administrator says so by {DECLARED}")),
    }
    let from = noted(FROM);
    let has_key = of_node(node).next().is_some();
    match wanted.mode {
        NodeMode::Open if from.is_empty() && !has_key && !is_marked(node) => None,
        NodeMode::Open => {
            trust(true, "Open", "every node is that has a certificate (--node-admission open)".to_owned())
        }
        NodeMode::Allowlist if is_listed(wanted, from.parse().ok()) => trust(
            true,
            "Listed",
            format!("it registered from {from}, which is on the list (--node-allowlist)"),
        ),
        NodeMode::Allowlist => {
            let from = if from.is_empty() { "nowhere that is known" } else { from };
            trust(
                false,
                "NotListed",
                format!("it registered from {from}, which is not on the list (--node-allowlist)"),
            )
        }
        NodeMode::Certificate if has_key => {
            trust(true, "KeyRegistered", "the key of its certificate is registered".to_owned())
        }
        NodeMode::Certificate => {
            let why =
                format!("no key is registered: approve a request of it for a certificate, or write {KEYS}");
            trust(false, "NoKey", why)
        }
    }
}

/// Writes what was judged into a Node, as a condition and a taint; false when it stands there already.
pub fn settle(node: &mut Json, trust: &Trust, now: Timestamp) -> bool {
    let is_tainted = settle_taint(node, trust);
    settle_condition(node, trust, now) || is_tainted
}

/// The taint alone.
fn settle_taint(node: &mut Json, trust: &Trust) -> bool {
    if is_tainted(node) != trust.holds {
        return false;
    }
    let Some(taints) = part(node, "spec").and_then(|spec| list(spec, "taints")) else { return false };
    if trust.holds {
        taints.retain(|taint| !is_ours(taint));
    } else {
        taints.push(json!({"key": TAINT, "effect": EFFECT}));
    }
    true
}

/// The condition alone.
fn settle_condition(node: &mut Json, trust: &Trust, now: Timestamp) -> bool {
    let status = if trust.holds { "True" } else { "False" };
    let found = condition(node);
    let says = |name: &str| text(found.as_ref().and_then(|found| found.get(name)));
    if (says("status"), says("reason"), says("message")) == (status, trust.reason, trust.message.as_str()) {
        return false;
    }
    let now = api::time::seconds(now);
    let since = if says("status") == status { says("lastTransitionTime").to_owned() } else { now.clone() };
    let wanted = json!({
        "type": CONDITION, "status": status, "reason": trust.reason, "message": trust.message,
        "lastTransitionTime": since, "lastHeartbeatTime": now,
    });
    set_condition(node, Some(wanted));
    true
}

/// Puts the condition back that a node has written over.
pub fn keep(node: &mut Json, old: &Json) {
    if condition(node) != condition(old) {
        set_condition(node, condition(old));
    }
}

/// Whether pods without a toleration are kept from a Node because it is not trusted.
pub fn is_tainted(node: &Json) -> bool {
    let taints = node.get("spec").and_then(|spec| spec.get("taints")?.as_array());
    taints.is_some_and(|taints| taints.iter().any(is_ours))
}

/// Whether a pod tolerates that.
pub fn tolerates(pod: &Json) -> bool {
    let tolerations = pod.get("spec").and_then(|spec| spec.get("tolerations")?.as_array());
    tolerations.into_iter().flatten().any(|toleration| {
        let says = |name: &str| text(toleration.get(name));
        let is_key = match says("operator") {
            "Exists" => ["", TAINT].contains(&says("key")),
            _ => says("key") == TAINT && says("value").is_empty(),
        };
        is_key && ["", EFFECT].contains(&says("effect"))
    })
}

/// What an annotation says; empty where there is none.
fn noted<'a>(node: &'a Json, name: &str) -> &'a str {
    text(node.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(name)))
}

fn annotations(node: &mut Json) -> Option<&mut Json> {
    part(node, "metadata").and_then(|metadata| part(metadata, "annotations"))
}

/// Whether anything was ever written at a Node.
fn is_marked(node: &Json) -> bool {
    is_tainted(node) || condition(node).is_some()
}

fn is_listed(wanted: &NodeAdmission, from: Option<IpAddr>) -> bool {
    from.is_some_and(|from| wanted.allowlist.iter().any(|(network, bits)| is_within(from, *network, *bits)))
}

fn is_ours(taint: &Value) -> bool {
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

/// A part that is an object, made where there is none; `None` where it is something else, which others refuse.
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
