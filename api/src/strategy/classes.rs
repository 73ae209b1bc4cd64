//! The strategies of PriorityClasses, RuntimeClasses and PodDisruptionBudgets.

use super::causes::{Causes, LABEL};
use super::dotted::fill;
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::selectors;
use crate::validate::names;

/// The strategy of PriorityClasses.
pub(super) static PRIORITY: KindStrategy = KindStrategy {
    default: |class| fill(class, "preemptionPolicy", "PreemptLowerPriority"),
    check: check_priority,
    update: |new, old, causes| {
        for field in ["value", "preemptionPolicy"] {
            if new.at(field).value() != old.at(field).value() {
                causes.forbidden(&new.at(field), "may not be changed in an update.");
            }
        }
    },
    ..NO_OP
};

/// The strategy of RuntimeClasses.
pub(super) static RUNTIME: KindStrategy =
    KindStrategy { check: check_runtime, immutable: &["handler"], ..NO_OP };

/// Limit for the value of user-defined priority classes.
const USER_MAX: i64 = 1_000_000_000;
/// The built-in priority classes.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn check_priority(class: &FieldValue<'_, '_>, causes: &mut Causes) {
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

fn check_runtime(class: &FieldValue<'_, '_>, causes: &mut Causes) {
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

/// The strategy of PodDisruptionBudgets.
pub(super) static BUDGET: KindStrategy = KindStrategy {
    check: |budget, causes| {
        let spec = budget.at("spec");
        if !spec.at("minAvailable").is_absent() && !spec.at("maxUnavailable").is_absent() {
            causes.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            super::workloads::int_or_percent(&spec.at(field), causes);
        }
        selectors::check(&spec.at("selector"), causes);
        causes.any_of(&spec.at("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
    },
    status: |new, _, causes| {
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            causes.not_negative(&new.at("status").at(count));
        }
    },
    ..NO_OP
};
