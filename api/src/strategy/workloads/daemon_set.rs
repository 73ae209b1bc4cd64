//! The strategy of DaemonSets.

use crate::dotted::{at, fields_at, fill, text};
use crate::equal::equal;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, Part, template};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy {
    default,
    prepare,
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

/// The annotation with the number of template changes. Older API versions had a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Counts the changes of the template. Clients cannot change the number.
fn prepare(set: &mut Json, before: Option<&Json>, _: &Part<'_>) {
    let number = match before {
        None => template_generation(set),
        Some(before) => {
            let (new, old) = (at(set, "spec.template"), at(before, "spec.template"));
            let is_same = new.zip(old).is_none_or(|(new, old)| equal(new, old));
            template_generation(before).saturating_add(i64::from(!is_same))
        }
    };
    if let Some(annotations) = fields_at(set, "metadata.annotations") {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), number.to_string().into());
    }
}

/// Returns the number in the annotation, or 1 if it is absent or invalid.
fn template_generation(set: &Json) -> i64 {
    let number =
        at(set, "metadata.annotations").and_then(|all| all.get(TEMPLATE_GENERATION)?.as_str()?.parse().ok());
    number.filter(|number| *number > 0).unwrap_or(1)
}

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
