//! Deployments: replaced a quarter at a time, ten revisions to go back to.

use serde_json::Value;

use crate::strategy::causes::Causes;
use crate::strategy::fill::{fill, fill_all, text};
use crate::strategy::place::Place;
use crate::strategy::rules::{NONE, Rules};
use crate::strategy::{Json, template};

pub(in crate::strategy) static RULES: Rules = Rules {
    default,
    check,
    frozen: &["spec.selector"],
    status: |new, _, causes| {
        let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        super::check_counts(new, &counts, causes);
    },
    ..NONE
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

fn check(object: &Place<'_, '_>, causes: &mut Causes) {
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

fn check_rolling(rolling: &Place<'_, '_>, causes: &mut Causes) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    super::count_or_share(&unavailable, causes);
    super::count_or_share(&surge, causes);
    if super::is_none(&unavailable) && super::is_none(&surge) {
        causes.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
    }
}
