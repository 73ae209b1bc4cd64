//! The strategies of FlowSchemas and PriorityLevelConfigurations.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::dotted::{at, fill, fill_all, text};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};

/// The strategy of FlowSchemas.
pub(super) static SCHEMA: KindStrategy = KindStrategy {
    default: |schema| fill(schema, "spec.matchingPrecedence", 1000),
    check: |schema, causes| {
        let spec = schema.at("spec");
        causes.within(&spec.at("matchingPrecedence"), 1, 10_000);
        if causes.required(&spec.at("priorityLevelConfiguration.name"), "must reference a priority level") {
            causes.subdomain(&spec.at("priorityLevelConfiguration.name"));
        }
        let method = spec.at("distinguisherMethod");
        if !method.is_absent() {
            causes.one_of(&method.at("type"), &["ByNamespace", "ByUser"]);
        }
        for rule in spec.at("rules").items() {
            causes.required(&rule.at("subjects"), "subjects must contain at least one value");
            if rule.at("resourceRules").is_empty() && rule.at("nonResourceRules").is_empty() {
                causes
                    .missing(&rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
            }
        }
    },
    ..NO_OP
};

/// The strategy of PriorityLevelConfigurations.
pub(super) static LEVEL: KindStrategy = KindStrategy { default: default_level, check: check_level, ..NO_OP };

fn default_level(level: &mut Json) {
    if text(level, "spec.type") == "Limited" && at(level, "spec.limited").is_some() {
        fill_all(
            level,
            &[
                ("spec.limited.nominalConcurrencyShares", Value::from(30)),
                ("spec.limited.lendablePercent", 0.into()),
            ],
        );
        if at(level, "spec.limited.limitResponse.queuing").is_some() {
            fill_all(
                level,
                &[
                    ("spec.limited.limitResponse.queuing.queues", Value::from(64)),
                    ("spec.limited.limitResponse.queuing.handSize", 8.into()),
                    ("spec.limited.limitResponse.queuing.queueLengthLimit", 50.into()),
                ],
            );
        }
    }
}

fn check_level(level: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = level.at("spec");
    let (limited, exempt) = (spec.at("limited"), spec.at("exempt"));
    causes.one_of(&spec.at("type"), &["Exempt", "Limited"]);
    match spec.at("type").text() {
        "Exempt" => causes.absent(&limited, "must be nil if the type is Exempt"),
        "Limited" if limited.is_absent() => {
            causes.missing(&limited, "must not be empty when type is Limited")
        }
        "Limited" => {
            causes.absent(&exempt, "must be nil if the type is Limited");
            causes.not_negative(&limited.at("nominalConcurrencyShares"));
            causes.within(&limited.at("lendablePercent"), 0, 100);
            causes.not_negative(&limited.at("borrowingLimitPercent"));
            let response = limited.at("limitResponse");
            causes.one_of(&response.at("type"), &["Queue", "Reject"]);
            let queuing = response.at("queuing");
            match response.at("type").text() {
                "Queue" if queuing.is_absent() => {
                    causes.missing(&queuing, "must not be empty if limited.limitResponse.type is Queue")
                }
                "Reject" => causes.absent(&queuing, "must be nil if limited.limitResponse.type is not Queue"),
                _ => {}
            }
        }
        _ => {}
    }
}
