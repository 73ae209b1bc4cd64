//! PriorityClasses and RuntimeClasses: names for how urgent a pod is, and for what runs it.

use super::causes::{Causes, LABEL};
use super::fill::fill;
use super::place::Place;
use super::rules::{NONE, Rules};
use super::selectors;
use crate::validate::names;

/// PriorityClass.
pub(super) static PRIORITY: Rules = Rules {
    default: |class| fill(class, "preemptionPolicy", "PreemptLowerPriority"),
    check: check_priority,
    update: |new, old, causes| {
        for field in ["value", "preemptionPolicy"] {
            if new.at(field).value() != old.at(field).value() {
                causes.forbidden(&new.at(field), "may not be changed in an update.");
            }
        }
    },
    ..NONE
};

/// RuntimeClass.
pub(super) static RUNTIME: Rules = Rules { check: check_runtime, frozen: &["handler"], ..NONE };

/// The most urgent that users may be.
const USER_MAX: i64 = 1_000_000_000;
/// The classes that every cluster has.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn check_priority(class: &Place<'_, '_>, causes: &mut Causes) {
    let name = class.at("metadata.name");
    let value = class.at("value");
    if name.text().starts_with("system-") {
        let is_known = SYSTEM.contains(&(name.text(), value.number().unwrap_or(0)));
        if !is_known {
            causes.forbidden(
                &name,
                "priority class names with 'system-' prefix are reserved for system use only",
            );
        }
    } else if value.number().is_some_and(|value| value > USER_MAX) {
        causes.forbidden(&value, &format!("maximum allowed value of a user defined priority is {USER_MAX}"));
    }
    causes.one_of(&class.at("preemptionPolicy"), &["Never", "PreemptLowerPriority"]);
}

fn check_runtime(class: &Place<'_, '_>, causes: &mut Causes) {
    let handler = class.at("handler");
    if handler.is_empty() {
        causes.invalid(&handler, LABEL);
    }
    causes.text(&handler, names::is_dns_label, LABEL);
    class.at("overhead.podFixed").entries().for_each(|(_, amount)| causes.amount(&amount));
    super::metadata::labels(&class.at("scheduling.nodeSelector"), causes);
    for toleration in class.at("scheduling.tolerations").items() {
        causes.any_of(&toleration.at("operator"), &["Equal", "Exists", "Gt", "Lt"]);
        causes.any_of(&toleration.at("effect"), &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

/// PodDisruptionBudget: stands here because it, too, is a few lines about pods that others make.
pub(super) static BUDGET: Rules = Rules {
    check: |budget, causes| {
        let spec = budget.at("spec");
        if !spec.at("minAvailable").is_absent() && !spec.at("maxUnavailable").is_absent() {
            causes.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            super::workloads::count_or_share(&spec.at(field), causes);
        }
        selectors::check(&spec.at("selector"), causes);
        causes.any_of(&spec.at("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
    },
    status: |new, _, causes| {
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            causes.not_negative(&new.at("status").at(count));
        }
    },
    ..NONE
};
