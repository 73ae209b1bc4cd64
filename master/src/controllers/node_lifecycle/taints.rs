//! Computes the taints of a node from its conditions. Pure.

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::conditions::Ready;
use crate::controllers::fields::NodeFields;
use crate::objects::{self, Condition};

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

/// Whether the node may get an eviction taint now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionTurn {
    /// It is the node's turn.
    Now,
    /// The node waits, because other nodes come first.
    Wait,
    /// No node is ready, so the control plane is probably at fault. Evictions are disabled.
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
    /// Whether there is nothing to write.
    pub fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Computes the taint changes of a node.
pub fn plan(node: &NodeFields, turn: EvictionTurn) -> Plan {
    let mut plan = Plan::default();
    let ready = Ready::of(node);
    plan_no_schedule(node, ready, &mut plan);
    plan_no_execute(node, ready, turn, &mut plan);
    plan
}

/// Plans the `NoSchedule` taints, which follow the conditions immediately.
fn plan_no_schedule(node: &NodeFields, ready: Ready, plan: &mut Plan) {
    let holds = |kind: &str| node.status.conditions.of_type(kind).is_some_and(Condition::is_true);
    let holding = CONDITION_TAINTS.iter().map(|(kind, key)| (*key, holds(kind)));
    let own = [
        // The taint from creation stays until the node reports a status.
        (
            NOT_READY,
            ready == Ready::No || ready == Ready::NeverReported && has(node, (NOT_READY, NO_SCHEDULE)),
        ),
        (UNREACHABLE, ready == Ready::Unknown),
        (UNSCHEDULABLE, node.spec.unschedulable),
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

/// Plans the `NoExecute` taints, which wait for the node's turn unless one replaces the other.
fn plan_no_execute(node: &NodeFields, ready: Ready, turn: EvictionTurn, plan: &mut Plan) {
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

pub fn has_eviction_taint(node: &NodeFields) -> bool {
    node.spec.taints.iter().any(is_eviction_taint)
}

/// Returns the time at which the newest eviction taint was added.
pub fn eviction_taint_since(node: &NodeFields) -> Option<Timestamp> {
    node.spec.taints.iter().filter(|one| is_eviction_taint(one)).filter_map(|one| one.time_added).max()
}

/// All `NoExecute` taints of a node.
pub fn no_execute_taints(node: &NodeFields) -> Vec<objects::Taint> {
    node.spec.taints.iter().filter(|taint| &*taint.effect == NO_EXECUTE).cloned().collect()
}

pub fn has(node: &NodeFields, taint: Taint) -> bool {
    node.spec.taints.iter().any(|one| is(one, taint))
}

fn is_eviction_taint(one: &objects::Taint) -> bool {
    [NOT_READY, UNREACHABLE].iter().any(|key| is(one, (key, NO_EXECUTE)))
}

/// Returns `spec.taints` of a Node after the plan is written.
pub fn planned_taints(node: &NodeFields, plan: &Plan, now: Timestamp) -> Vec<Value> {
    let stays = |one: &&objects::Taint| !plan.remove.iter().any(|taint| is(one, *taint));
    let kept = node.spec.taints.iter().filter(stays).map(|one| {
        let mut taint = json!({"key": one.key, "effect": one.effect});
        if !one.value.is_empty() {
            taint["value"] = Value::from(&*one.value);
        }
        if let Some(added) = one.time_added {
            taint["timeAdded"] = seconds(added).into();
        }
        taint
    });
    let added =
        plan.add.iter().map(|(key, effect)| json!({"key": key, "effect": effect, "timeAdded": seconds(now)}));
    kept.chain(added).collect()
}

fn is(one: &objects::Taint, (key, effect): Taint) -> bool {
    &*one.key == key && &*one.effect == effect
}

#[cfg(test)]
mod tests {
    //! Tests of taints by the conditions of a node.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    /// Creates a node with the given conditions and taints (`not-ready:NoExecute`).
    fn node(conditions: &[(&str, &str)], taints: &[&str], cordoned: bool) -> NodeFields {
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
        serde_json::from_value(node).unwrap()
    }

    /// Returns the node after the plan is written.
    fn written(node: &NodeFields, plan: &Plan) -> NodeFields {
        let taints = planned_taints(node, plan, Timestamp::UNIX_EPOCH);
        let spec = serde_json::from_value(json!({"taints": taints})).unwrap();
        NodeFields { spec, ..node.clone() }
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
    fn taints_follow_the_conditions_of_a_node() {
        let ready = ("Ready", "True");
        let (no, unknown) = (("Ready", "False"), ("Ready", "Unknown"));
        let check = |conditions: &[(&str, &str)],
                     has: &[&str],
                     turn: EvictionTurn,
                     add: &[&str],
                     remove: &[&str],
                     waits: bool| {
            let node = node(conditions, has, false);
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
            let again = plan(
                &written(&node, &found),
                if turn == EvictionTurn::Now { EvictionTurn::Wait } else { turn },
            );
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
    fn only_no_execute_taints_for_readiness_are_eviction_taints() {
        let evicts = |taint: &str| has_eviction_taint(&node(&[], &[taint], false));
        assert!(evicts("not-ready:NoExecute") && evicts("unreachable:NoExecute"));
        assert!(!evicts("unreachable:NoSchedule") && !evicts("example.com/mine:NoExecute"));
    }

    #[test]
    fn a_cordoned_node_has_a_taint() {
        let cordoned = node(&[("Ready", "True")], &[], true);
        let found = plan(&cordoned, EvictionTurn::Wait);
        assert_eq!(names(&found.add), ["unschedulable:NoSchedule"]);
        let uncordoned = written(&cordoned, &found);
        assert_eq!(names(&plan(&uncordoned, EvictionTurn::Wait).remove), ["unschedulable:NoSchedule"]);
    }

    #[test]
    fn other_taints_keep_all_their_fields() {
        let taint = json!({"key": "example.com/mine", "value": "x", "effect": NO_EXECUTE, "timeAdded": "2026-01-01T00:00:00Z"});
        let node = serde_json::from_value(json!({"spec": {"taints": [taint]}})).unwrap();
        let plan = Plan { add: vec![(NOT_READY, NO_SCHEDULE)], ..Plan::default() };
        let taints = planned_taints(&node, &plan, Timestamp::UNIX_EPOCH);
        assert_eq!(taints[0], taint);
        assert_eq!(taints.len(), 2);
    }
}
