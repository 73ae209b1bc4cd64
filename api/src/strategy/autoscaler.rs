//! The strategy of HorizontalPodAutoscalers.

use serde_json::{Value, json};

use super::Json;
use super::causes::Causes;
use super::dotted::{at, fill, fill_all};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};

pub(super) static STRATEGY: KindStrategy = KindStrategy {
    default,
    check,
    status: |new, _, causes| {
        for count in ["currentReplicas", "desiredReplicas"] {
            causes.not_negative(&new.at("status").at(count));
        }
    },
    ..NO_OP
};

/// The types of metric sources, each with the field that holds its settings.
const KINDS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// Default target utilization, in percent of the requested CPU.
const PERCENT: i64 = 80;
/// Maximum stabilization window in seconds, as in Kubernetes.
const WINDOW_MAX_SECONDS: i64 = 3600;
/// Maximum period of a scaling policy in seconds, as in Kubernetes.
const PERIOD_MAX_SECONDS: i64 = 1800;

fn default(scaler: &mut Json) {
    fill(scaler, "spec.minReplicas", 1);
    if at(scaler, "spec.metrics").is_none() {
        let target = json!({"type": "Utilization", "averageUtilization": PERCENT});
        let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        fill(scaler, "spec.metrics", metrics);
    }
    if at(scaler, "spec.behavior").is_some() {
        let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
        fill_all(
            scaler,
            &[
                ("spec.behavior.scaleUp.stabilizationWindowSeconds", Value::from(0)),
                ("spec.behavior.scaleUp.selectPolicy", "Max".into()),
                ("spec.behavior.scaleUp.policies", json!([policy("Pods", 4), policy("Percent", 100)])),
                ("spec.behavior.scaleDown.selectPolicy", "Max".into()),
                ("spec.behavior.scaleDown.policies", json!([policy("Percent", 100)])),
            ],
        );
    }
}

fn check(scaler: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = scaler.at("spec");
    for field in ["kind", "name"] {
        let field = format!("scaleTargetRef.{field}");
        if causes.required(&spec.at(&field), "") {
            causes.path_segment(&spec.at(&field));
        }
    }
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    if least.number().is_some_and(|least| least < 1) {
        causes.invalid(&least, "must be greater than or equal to 1");
    }
    if most.number().unwrap_or(0) < 1 {
        causes.invalid(&most, "must be greater than 0");
    }
    if most.number().unwrap_or(0) < least.number().unwrap_or(0) {
        causes.invalid(&most, "must be greater than or equal to `minReplicas`");
    }
    spec.at("metrics").items().for_each(|metric| check_metric(&metric, causes));
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior");
        let rules = rules.at(direction);
        causes.within(&rules.at("stabilizationWindowSeconds"), 0, WINDOW_MAX_SECONDS);
        causes.any_of(&rules.at("selectPolicy"), &["Disabled", "Max", "Min"]);
        for policy in rules.at("policies").items() {
            causes.one_of(&policy.at("type"), &["Percent", "Pods"]);
            causes.positive(&policy.at("value"));
            causes.within(&policy.at("periodSeconds"), 1, PERIOD_MAX_SECONDS);
        }
    }
}

fn check_metric(metric: &FieldValue<'_, '_>, causes: &mut Causes) {
    let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    causes.one_of(&metric.at("type"), &known);
    for (kind, field) in KINDS {
        let source = metric.at(field);
        if metric.at("type").text() != kind {
            causes.absent(&source, "may only be set when it is what `type` names");
        } else if source.is_absent() {
            causes.missing(&source, "must populate information for the given metric source");
        } else {
            let name = if kind.ends_with("Resource") { "name" } else { "metric.name" };
            causes.required(&source.at(name), "");
            if kind == "ContainerResource" {
                causes.required(&source.at("container"), "");
            }
            check_target(&source.at("target"), causes);
        }
    }
}

fn check_target(target: &FieldValue<'_, '_>, causes: &mut Causes) {
    causes.one_of(&target.at("type"), &["Utilization", "Value", "AverageValue"]);
    let wanted = match target.at("type").text() {
        "Utilization" => "averageUtilization",
        "Value" => "value",
        _ => "averageValue",
    };
    let aim = target.at(wanted);
    if aim.is_absent() {
        causes.missing(&aim, "must be set for this type of target");
    }
    causes.positive(&aim);
    causes.amount(&aim);
}
