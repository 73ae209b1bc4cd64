//! The strategy of Deployments.

use serde_json::Value;

use crate::dotted::{fill, fill_all, text};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, template};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy {
    default,
    check,
    immutable: &["spec.selector"],
    status: |new, _, causes| {
        let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        super::check_counts(new, &counts, causes);
    },
    ..NO_OP
};

fn default(object: &mut Json) {
    fill_all(
        object,
        &[
            ("spec.replicas", Value::from(1)),
            ("spec.strategy.type", "RollingUpdate".into()),
            ("spec.revisionHistoryLimit", 10.into()),
            ("spec.progressDeadlineSeconds", 600.into()),
        ],
    );
    if text(object, "spec.strategy.type") == "RollingUpdate" {
        fill(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
        fill(object, "spec.strategy.rollingUpdate.maxSurge", "25%");
    }
    template::default(object, "spec.template.spec");
}

fn check(object: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = object.at("spec");
    for count in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        causes.not_negative(&spec.at(count));
    }
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| seconds <= spec.at("minReadySeconds").number().unwrap_or(0)) {
        causes.invalid(&deadline, "must be greater than minReadySeconds");
    }
    super::check_template(object, &super::always("deployment"), causes);
    let strategy = spec.at("strategy");
    let rolling = strategy.at("rollingUpdate");
    causes.one_of(&strategy.at("type"), &["Recreate", "RollingUpdate"]);
    match strategy.at("type").text() {
        "Recreate" if !rolling.is_absent() => {
            causes.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "RollingUpdate" => check_rolling(&rolling, causes),
        _ => {}
    }
}

fn check_rolling(rolling: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    super::int_or_percent(&unavailable, causes);
    super::int_or_percent(&surge, causes);
    if super::is_none(&unavailable) && super::is_none(&surge) {
        causes.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
    }
}
