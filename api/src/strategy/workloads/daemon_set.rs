//! The strategy of DaemonSets.

use crate::dotted::{fill, text};
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, template};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy {
    default,
    check,
    immutable: &["spec.selector"],
    status: |new, _, causes| {
        for count in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            causes.not_negative(&new.at("status").at(count));
        }
    },
    ..NO_OP
};

fn default(set: &mut Json) {
    fill(set, "spec.updateStrategy.type", "RollingUpdate");
    if text(set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill(set, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
        fill(set, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
    }
    fill(set, "spec.revisionHistoryLimit", 10);
    template::default(set, "spec.template.spec");
}

fn check(set: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = set.at("spec");
    causes.not_negative(&spec.at("minReadySeconds"));
    causes.not_negative(&spec.at("revisionHistoryLimit"));
    super::check_template(set, &super::always("DaemonSet"), causes);
    let strategy = spec.at("updateStrategy");
    causes.one_of(&strategy.at("type"), &["RollingUpdate", "OnDelete"]);
    if strategy.at("type").text() != "RollingUpdate" {
        return;
    }
    let (unavailable, surge) =
        (strategy.at("rollingUpdate.maxUnavailable"), strategy.at("rollingUpdate.maxSurge"));
    super::int_or_percent(&unavailable, causes);
    super::int_or_percent(&surge, causes);
    match (super::is_none(&unavailable), super::is_none(&surge)) {
        (true, true) => causes.invalid(&unavailable, "cannot be 0 when maxSurge is 0"),
        (false, false) => causes.invalid(&surge, "may not be set when maxUnavailable is non-zero"),
        _ => {}
    }
}
