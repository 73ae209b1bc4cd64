//! Tests of decisions over several metrics, with conditions and events.

use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::controllers::horizontal_pod_autoscaler::behavior::History;
use crate::controllers::horizontal_pod_autoscaler::metric::Samples;
use crate::controllers::horizontal_pod_autoscaler::plan::{
    Decision, Input, Plan, by_metrics, without_metrics,
};
use crate::controllers::horizontal_pod_autoscaler::status::Report;
use crate::objects::autoscaling::HorizontalPodAutoscaler;

fn scaler(metrics: &Value) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "generation": 3},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10, "metrics": metrics},
    }))
    .unwrap()
}

fn cpu(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn memory(average: &str) -> Value {
    let target = json!({"type": "AverageValue", "averageValue": average});
    json!({"type": "Resource", "resource": {"name": "memory", "target": target}})
}

fn requests_metric() -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "1k"}}})
}

/// Three pods that request 100m, with this usage.
fn samples(cpu: &str) -> Samples {
    let names = ["a", "b", "c"];
    Samples {
        pods: Ok(pods(&names.map(|name| pod(name, "100m")))),
        metrics: Ok(pod_metrics(&names.map(|name| metrics(name, cpu)))),
    }
}

/// The plan for three replicas.
fn plan(metrics: &Value, samples: &Samples) -> Plan {
    let (scaler, instant) = (scaler(metrics), Instant::now());
    let mut history = History::new(1, instant);
    let input = Input { scaler: &scaler, current: 3, samples, now: noon(), instant };
    by_metrics(&input, &mut history)
}

/// The conditions of an autoscaler after a plan, as type, status and reason.
fn conditions(plan: Plan) -> Vec<String> {
    let mut report = Report::new(&scaler(&json!([])), noon());
    report.scale_is_known();
    report.add(plan, 3);
    let conditions = &report.status.conditions;
    conditions.iter().map(|one| format!("{} {} {}", one.r#type, one.status, one.reason)).collect()
}

#[test]
fn the_highest_proposal_of_several_metrics_counts() {
    let both = plan(&json!([cpu(50), memory("4Mi")]), &samples("100m"));
    // 100 % of 50 % are 6 pods; 10Mi of 4Mi are 8.
    let reason = "memory resource above target".to_owned();
    let rescale = Decision::Rescale { to: 6, reason };
    assert_eq!(both.decision, rescale, "one step at most doubles");
    assert_eq!(
        both.metrics,
        [
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "100m"}}}),
            json!({"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "10485760"}}}),
        ]
    );
    assert_eq!(
        conditions(both),
        [
            "AbleToScale True ReadyForNewScale",
            "ScalingActive True ValidMetricFound",
            "ScalingLimited True ScaleUpLimit"
        ]
    );
    let one = plan(&json!([cpu(50), memory("100Mi")]), &samples("100m"));
    let reason = "cpu resource utilization (percentage of request) above target".to_owned();
    assert_eq!(one.decision, Decision::Rescale { to: 6, reason });
}

#[test]
fn all_metrics_must_permit_scaling_down() {
    let down = plan(&json!([cpu(50), memory("30Mi")]), &samples("10m"));
    let reason = "All metrics below target".to_owned();
    assert_eq!(down.decision, Decision::Rescale { to: 2, reason });
    assert_eq!(conditions(down)[2], "ScalingLimited True TooFewReplicas");
    let kept = plan(&json!([cpu(50), memory("10Mi")]), &samples("10m"));
    assert_eq!(
        (kept.decision.clone(), &conditions(kept)[2][..]),
        (Decision::Keep, "ScalingLimited False DesiredWithinRange")
    );
}

#[test]
fn a_metric_without_value_prevents_scaling_down_only() {
    let up = plan(&json!([requests_metric(), cpu(50)]), &samples("100m"));
    assert!(matches!(up.decision, Decision::Rescale { to: 6, .. }), "{up:?}");
    assert_eq!(
        (up.warnings.len(), up.warnings[0].0, &up.metrics[0]),
        (1, "FailedGetPodsMetric", &json!({"type": ""}))
    );

    let down = plan(&json!([requests_metric(), cpu(50)]), &samples("10m"));
    assert_eq!(down.decision, Decision::Unknown);
    assert_eq!(conditions(down.clone())[1], "ScalingActive False FailedGetPodsMetric");
    let (reason, message) = &down.warnings[1];
    assert_eq!(
        (*reason, message.as_str()),
        (
            "FailedComputeMetricsReplicas",
            "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: unable to get metric \
             requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        )
    );
}

#[test]
fn metrics_that_cannot_be_read_are_named() {
    let reason = |metrics: &Value, samples: &Samples| {
        let plan = plan(metrics, samples);
        assert_eq!(plan.decision, Decision::Unknown);
        plan.warnings[0].clone()
    };
    let refused = Samples { metrics: Err("refused".to_owned()), ..samples("1") };
    let start = "failed to get cpu utilization: unable to get metrics for resource cpu: ";
    assert_eq!(
        reason(&json!([cpu(50)]), &refused),
        (
            "FailedGetResourceMetric",
            format!("{start}unable to fetch metrics from resource metrics API: refused")
        )
    );
    let none = Samples { metrics: Ok(Vec::new()), ..samples("1") };
    assert_eq!(
        reason(&json!([cpu(50)]), &none).1,
        format!("{start}no metrics returned from resource metrics API")
    );
    let of_container = json!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "gone",
        "target": {"type": "Utilization", "averageUtilization": 5}}}]);
    assert_eq!(
        reason(&of_container, &samples("1")),
        (
            "FailedGetContainerResourceMetric",
            format!(
                "{start}failed to get container metrics: container gone not present in metrics for pod shop/a"
            )
        )
    );
    for (metric, expected) in [
        (json!({"type": "External", "external": {"metric": {"name": "queue"}}}), "FailedGetExternalMetric"),
        (json!({"type": "Object", "object": {"metric": {"name": "hits"}}}), "FailedGetObjectMetric"),
        (json!({"type": "Later"}), "InvalidMetricSourceType"),
    ] {
        assert_eq!(reason(&json!([metric]), &samples("1")).0, expected);
    }
    assert_eq!(reason(&json!([]), &samples("1")).0, "FailedComputeMetricsReplicas");
}

#[test]
fn replicas_outside_of_the_limits_need_no_metrics() {
    let scaler = scaler(&json!([cpu(50)]));
    let to = |current: i64| without_metrics(&scaler, current).map(|plan| plan.decision);
    let rescale = |to: i64, reason: &str| Some(Decision::Rescale { to, reason: reason.to_owned() });
    assert_eq!(to(11), rescale(10, "Current number of replicas above Spec.MaxReplicas"));
    assert_eq!(to(1), rescale(2, "Current number of replicas below Spec.MinReplicas"));
    assert_eq!((to(2), to(10), to(0)), (None, None, Some(Decision::Keep)));
    let disabled = conditions(without_metrics(&scaler, 0).unwrap());
    assert_eq!(disabled, ["AbleToScale True SucceededGetScale", "ScalingActive False ScalingDisabled"]);
}

#[test]
fn the_time_of_a_condition_is_that_of_its_last_change() {
    let mut scaler = scaler(&json!([]));
    let mut report = Report::new(&scaler, noon());
    report.scale_is_known();
    report.rescaled(5, "why");
    scaler.status = report.status.clone();
    let later = noon() + jiff::SignedDuration::from_secs(15);
    let mut report = Report::new(&scaler, later);
    report.scale_is_known();
    let since = |report: &Report| report.status.conditions[0].last_transition_time.unwrap();
    assert_eq!((since(&report), report.status.last_scale_time), (noon(), Some(noon())));
    report.scale_is_unknown("gone");
    assert_eq!((since(&report), report.status.observed_generation), (later, Some(3)));
    assert_eq!((report.status.desired_replicas, report.events[0].reason), (5, "FailedGetScale"));
}

#[test]
fn the_tolerance_of_the_behavior_replaces_the_default() {
    let mut scaler = scaler(&json!([cpu(50)]));
    let samples = samples("53m");
    let decide = |scaler: &HorizontalPodAutoscaler| {
        let instant = Instant::now();
        let input = Input { scaler, current: 3, samples: &samples, now: noon(), instant };
        by_metrics(&input, &mut History::new(3, instant)).decision
    };
    assert_eq!(decide(&scaler), Decision::Keep);
    let behavior = json!({"scaleUp": {"tolerance": "0.05", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
    scaler.spec.behavior = serde_json::from_value(behavior).unwrap();
    assert!(matches!(decide(&scaler), Decision::Rescale { to: 4, .. }));
}
