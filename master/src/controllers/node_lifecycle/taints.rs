//! Computes the taints of a node from its conditions. Pure.

use api::time::seconds;
use client::Json;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::conditions::Ready;
use crate::controllers::object::{at, condition_is, text};

/// The taint of a node whose Ready condition is false.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node whose Ready condition is unknown.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taints of other conditions while they are true.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
/// The effect that keeps new pods off a node.
const NO_SCHEDULE: &str = "NoSchedule";
/// The effect that evicts pods.
pub const NO_EXECUTE: &str = "NoExecute";

/// Whether a node may get an eviction taint now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionTurn {
    /// It is the node's turn.
    Now,
    /// Other nodes come first.
    Wait,
    /// No node is ready: the control plane is probably at fault, so evictions are disabled.
    Disabled,
}

/// A taint by key and effect.
pub type Taint = (&'static str, &'static str);

/// The taint changes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub add: Vec<Taint>,
    pub remove: Vec<Taint>,
    /// Whether the node waits for its eviction turn.
    pub waits: bool,
}

impl Plan {
    /// Whether nothing must be written.
    pub fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Computes the taint changes of a node.
pub fn plan(node: &Json, turn: EvictionTurn) -> Plan {
    let mut plan = Plan::default();
    let ready = Ready::of(node);
    plan_no_schedule(node, ready, &mut plan);
    plan_no_execute(node, ready, turn, &mut plan);
    plan
}

/// `NoSchedule` taints follow the conditions immediately.
fn plan_no_schedule(node: &Json, ready: Ready, plan: &mut Plan) {
    let is_cordoned = at(node, "/spec/unschedulable") == Some(&Value::Bool(true));
    let holding = CONDITION_TAINTS.iter().map(|(kind, key)| (*key, condition_is(node, kind, "True")));
    let own = [
        // The taint from creation stays until the node reports a status.
        (
            NOT_READY,
            ready == Ready::No || ready == Ready::NeverReported && has(node, (NOT_READY, NO_SCHEDULE)),
        ),
        (UNREACHABLE, ready == Ready::Unknown),
        (UNSCHEDULABLE, is_cordoned),
    ];
    for (key, is_wanted) in own.into_iter().chain(holding) {
        let taint = (key, NO_SCHEDULE);
        match (is_wanted, has(node, taint)) {
            (true, false) => plan.add.push(taint),
            (false, true) => plan.remove.push(taint),
            _ => {}
        }
    }
}

/// `NoExecute` taints wait for the node's turn, unless one replaces the other.
fn plan_no_execute(node: &Json, ready: Ready, turn: EvictionTurn, plan: &mut Plan) {
    let (wanted, other) = match ready {
        Ready::No => ((NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)),
        Ready::Unknown => ((UNREACHABLE, NO_EXECUTE), (NOT_READY, NO_EXECUTE)),
        Ready::Yes => {
            let both = [(NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)];
            plan.remove.extend(both.into_iter().filter(|taint| has(node, *taint)));
            return;
        }
        Ready::NeverReported => return,
    };
    let (has_wanted, has_other) = (has(node, wanted), has(node, other));
    if turn == EvictionTurn::Disabled {
        plan.remove.extend([wanted, other].into_iter().filter(|taint| has(node, *taint)));
        plan.waits = true;
        return;
    }
    if !has_wanted && (has_other || turn == EvictionTurn::Now) {
        plan.add.push(wanted);
    }
    if has_other {
        plan.remove.push(other);
    }
    plan.waits = !has_wanted && !has_other && turn == EvictionTurn::Wait;
}

pub fn has_eviction_taint(node: &Json) -> bool {
    all(node).any(is_eviction_taint)
}

/// When the newest eviction taint was added.
pub fn eviction_taint_since(node: &Json) -> Option<Timestamp> {
    let since = |one: &Value| one.get("timeAdded").and_then(Value::as_str)?.parse().ok();
    all(node).filter(|one| is_eviction_taint(one)).filter_map(since).max()
}

/// All `NoExecute` taints of a node by key and value.
pub fn no_execute_taints(node: &Json) -> Vec<(String, String)> {
    let evicts = |taint: &&Value| taint.get("effect").and_then(Value::as_str) == Some(NO_EXECUTE);
    all(node).filter(evicts).map(|taint| (text(taint.get("key")), text(taint.get("value")))).collect()
}

pub fn has(node: &Json, taint: Taint) -> bool {
    all(node).any(|one| is(one, taint))
}

fn all(node: &Json) -> impl Iterator<Item = &Value> {
    at(node, "/spec/taints").and_then(Value::as_array).into_iter().flatten()
}

fn is_eviction_taint(one: &Value) -> bool {
    [NOT_READY, UNREACHABLE].iter().any(|key| is(one, (key, NO_EXECUTE)))
}

/// Applies the plan to a Node.
pub fn write(node: &mut Json, plan: &Plan, now: Timestamp) {
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    if spec.is_null() {
        *spec = json!({});
    }
    let mut taints = spec.get("taints").and_then(Value::as_array).cloned().unwrap_or_default();
    taints.retain(|one| !plan.remove.iter().any(|taint| is(one, *taint)));
    let added =
        plan.add.iter().map(|(key, effect)| json!({"key": key, "effect": effect, "timeAdded": seconds(now)}));
    taints.extend(added);
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("taints".to_owned(), taints.into());
    }
}

fn is(one: &Value, (key, effect): Taint) -> bool {
    let says = |field: &str, of: &str| one.get(field).and_then(Value::as_str) == Some(of);
    says("key", key) && says("effect", effect)
}

#[cfg(test)]
mod tests {
    //! Taints by the conditions of a node.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    /// A node with these conditions and these taints (`not-ready:NoExecute`).
    fn node(conditions: &[(&str, &str)], taints: &[&str], cordoned: bool) -> Json {
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let taints: Vec<Value> = taints
            .iter()
            .map(|taint| {
                let (key, effect) = taint.split_once(':').unwrap();
                let key =
                    if key.contains('/') { key.to_owned() } else { format!("node.kubernetes.io/{key}") };
                json!({"key": key, "effect": effect})
            })
            .collect();
        let node = json!({"spec": {"taints": taints, "unschedulable": cordoned}, "status": {"conditions": conditions}});
        node.as_object().unwrap().clone()
    }

    fn names(taints: &[Taint]) -> Vec<String> {
        let mut names: Vec<String> = taints
            .iter()
            .map(|(key, effect)| format!("{}:{effect}", key.trim_start_matches("node.kubernetes.io/")))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn taints_follow_what_a_node_says() {
        let ready = ("Ready", "True");
        let (no, unknown) = (("Ready", "False"), ("Ready", "Unknown"));
        let check = |conditions: &[(&str, &str)],
                     has: &[&str],
                     turn: EvictionTurn,
                     add: &[&str],
                     remove: &[&str],
                     waits: bool| {
            let mut node = node(conditions, has, false);
            let found = plan(&node, turn);
            let case = format!("{conditions:?} {has:?} {turn:?}");
            assert_eq!(
                (names(&found.add), names(&found.remove), found.waits),
                (
                    add.iter().map(|t| (*t).to_owned()).collect(),
                    remove.iter().map(|t| (*t).to_owned()).collect(),
                    waits
                ),
                "{case}"
            );
            write(&mut node, &found, Timestamp::UNIX_EPOCH);
            let again = plan(&node, if turn == EvictionTurn::Now { EvictionTurn::Wait } else { turn });
            assert!(again.is_done(), "{case}: {again:?}");
        };
        use EvictionTurn::{Disabled, Now, Wait};
        check(&[ready], &[], Wait, &[], &[], false);
        check(&[], &["not-ready:NoSchedule"], Wait, &[], &[], false);
        check(&[], &[], Now, &[], &[], false);
        check(
            &[ready],
            &["not-ready:NoSchedule", "example.com/mine:NoExecute"],
            Wait,
            &[],
            &["not-ready:NoSchedule"],
            false,
        );
        check(&[no], &["not-ready:NoSchedule"], Wait, &[], &[], true);
        check(&[no], &["not-ready:NoSchedule"], Now, &["not-ready:NoExecute"], &[], false);
        check(&[unknown], &[], Wait, &["unreachable:NoSchedule"], &[], true);
        check(&[unknown], &[], Now, &["unreachable:NoExecute", "unreachable:NoSchedule"], &[], false);
        check(
            &[unknown],
            &["not-ready:NoSchedule", "not-ready:NoExecute"],
            Wait,
            &["unreachable:NoExecute", "unreachable:NoSchedule"],
            &["not-ready:NoExecute", "not-ready:NoSchedule"],
            false,
        );
        check(
            &[unknown],
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
            Disabled,
            &[],
            &["unreachable:NoExecute"],
            true,
        );
        check(
            &[ready],
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
            Disabled,
            &[],
            &["unreachable:NoExecute", "unreachable:NoSchedule"],
            false,
        );
        check(
            &[ready, ("DiskPressure", "True"), ("MemoryPressure", "Unknown")],
            &["memory-pressure:NoSchedule"],
            Wait,
            &["disk-pressure:NoSchedule"],
            &["memory-pressure:NoSchedule"],
            false,
        );
        check(
            &[ready, ("PIDPressure", "True"), ("NetworkUnavailable", "True")],
            &[],
            Wait,
            &["network-unavailable:NoSchedule", "pid-pressure:NoSchedule"],
            &[],
            false,
        );
    }

    #[test]
    fn only_what_ends_pods_for_silence_ends_them() {
        let evicts = |taint: &str| has_eviction_taint(&node(&[], &[taint], false));
        assert!(evicts("not-ready:NoExecute") && evicts("unreachable:NoExecute"));
        assert!(!evicts("unreachable:NoSchedule") && !evicts("example.com/mine:NoExecute"));
    }

    #[test]
    fn a_cordon_is_a_taint() {
        let mut cordoned = node(&[("Ready", "True")], &[], true);
        let found = plan(&cordoned, EvictionTurn::Wait);
        assert_eq!(names(&found.add), ["unschedulable:NoSchedule"]);
        write(&mut cordoned, &found, Timestamp::UNIX_EPOCH);
        cordoned["spec"]["unschedulable"] = false.into();
        assert_eq!(names(&plan(&cordoned, EvictionTurn::Wait).remove), ["unschedulable:NoSchedule"]);
    }
}
