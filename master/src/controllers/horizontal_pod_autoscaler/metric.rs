//! Proposes a number of replicas for one metric, with the status of the metric or the reason why there is none. Pure.

use api::quantity::Quantity;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::calculation::{self, CalculationError, Target, Tolerance};
use crate::objects::Pod;
use crate::objects::autoscaling::{MetricSpec, PodMetrics, ResourceMetric};

/// What the API says about the pods of a target. An error is the message of a failed request.
#[derive(Debug)]
pub struct Samples {
    pub pods: Result<Vec<Pod>, String>,
    pub metrics: Result<Vec<PodMetrics>, String>,
}

/// The number of replicas that one metric requires.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i64,
    /// Describes the metric in messages.
    pub metric: String,
    /// The element of `status.currentMetrics`.
    pub status: Value,
}

/// Why a metric yields no number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Reason of the event and of the condition `ScalingActive`.
    pub reason: &'static str,
    pub message: String,
    /// What failed, for the message about all metrics.
    pub operation: String,
}

/// The input that all metrics share.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub samples: &'a Samples,
    /// The replicas of the target's scale.
    pub current: i64,
    pub tolerance: Tolerance,
    /// Namespace of the autoscaler, for messages.
    pub namespace: &'a str,
    pub now: Timestamp,
}

/// Proposes replicas for a metric.
///
/// # Errors
/// If the metric has no value. Custom and external metrics never have one, because the master serves no such API.
pub fn propose(spec: &MetricSpec, input: &Input<'_>) -> Result<Proposal, Failure> {
    match spec {
        MetricSpec::Resource { resource } => {
            let proposal = of_resource(resource, None, input).map_err(|message| Failure {
                reason: "FailedGetResourceMetric",
                message,
                operation: format!("failed to get {} resource metric value", resource.name),
            })?;
            let status = json!({"name": resource.name, "current": proposal.status});
            Ok(Proposal { status: json!({"type": "Resource", "resource": status}), ..proposal })
        }
        MetricSpec::ContainerResource { resource } => {
            let container = &*resource.container;
            let proposal = of_resource(resource, Some(container), input).map_err(|message| Failure {
                reason: "FailedGetContainerResourceMetric",
                message,
                operation: format!("failed to get {container} container metric value"),
            })?;
            let status = json!({"name": resource.name, "container": container, "current": proposal.status});
            let status = json!({"type": "ContainerResource", "containerResource": status});
            Ok(Proposal { status, ..proposal })
        }
        MetricSpec::Pods { pods } => Err(Failure {
            reason: "FailedGetPodsMetric",
            message: format!("unable to get metric {}: {NO_CUSTOM_METRICS}", pods.metric.name),
            operation: "failed to get pods metric value".to_owned(),
        }),
        MetricSpec::Object { object } => {
            let of = &object.described_object;
            let (metric, namespace) = (&object.metric.name, input.namespace);
            let message = format!(
                "unable to get metric {metric} on {} {namespace}/{}: {NO_CUSTOM_METRICS}",
                of.kind, of.name
            );
            let operation = "failed to get object metric value".to_owned();
            Err(Failure { reason: "FailedGetObjectMetric", message, operation })
        }
        MetricSpec::External { external } => {
            let metric = &external.metric.name;
            Err(Failure {
                reason: "FailedGetExternalMetric",
                message: format!(
                    "unable to get external metric {}/{metric}: {NO_EXTERNAL_METRICS}",
                    input.namespace
                ),
                operation: format!("failed to get {metric} external metric value"),
            })
        }
        MetricSpec::Unknown => Err(Failure {
            reason: "InvalidMetricSourceType",
            message: "unknown metric source type".to_owned(),
            operation: "failed to read a metric".to_owned(),
        }),
    }
}

const NO_CUSTOM_METRICS: &str = "unable to fetch metrics from custom metrics API: \
                                 no custom metrics API (custom.metrics.k8s.io) registered";
const NO_EXTERNAL_METRICS: &str = "unable to fetch metrics from external metrics API: \
                                   no external metrics API (external.metrics.k8s.io) registered";

/// Proposes replicas for the usage of a resource. The status of the proposal is only its current value.
fn of_resource(
    metric: &ResourceMetric,
    container: Option<&str>,
    input: &Input<'_>,
) -> Result<Proposal, String> {
    let resource = &*metric.name;
    let (target, what) = match (metric.target.average_value, metric.target.average_utilization) {
        (Some(average), _) => (Target::AverageValue(average.milli().into()), "usage"),
        (None, Some(percent)) => (Target::Utilization(percent), "utilization"),
        (None, None) => {
            return Err(
                "invalid resource metric source: neither an average utilization target nor an average \
                        value (usage) target was set"
                    .to_owned(),
            );
        }
    };
    let failed = |why: String| format!("failed to get {resource} {what}: {why}");
    let no_metrics = |why: String| failed(format!("unable to get metrics for resource {resource}: {why}"));
    let metrics = input
        .samples
        .metrics
        .as_ref()
        .map_err(|why| no_metrics(format!("unable to fetch metrics from resource metrics API: {why}")))?;
    if metrics.is_empty() {
        return Err(no_metrics("no metrics returned from resource metrics API".to_owned()));
    }
    let usage = calculation::usage(metrics, resource, container)
        .map_err(|error| no_metrics(format!("failed to get container metrics: {error}")))?;
    let pods = input.samples.pods.as_ref();
    let pods =
        pods.map_err(|why| failed(format!("unable to get pods while calculating replica count: {why}")))?;
    let calculation = calculation::Input {
        resource,
        container,
        target,
        tolerance: input.tolerance,
        current: input.current,
        pods,
        usage: &usage,
        now: input.now,
    };
    let output =
        calculation::replicas(&calculation).map_err(|error: CalculationError| failed(error.to_string()))?;
    let average = Quantity::from_milli(output.average).to_string();
    let container = container.map_or("", |_| "container ");
    let (metric, status) = match output.utilization {
        None => (format!("{resource} {container}resource"), json!({"averageValue": average})),
        Some(percent) => (
            format!("{resource} {container}resource utilization (percentage of request)"),
            json!({"averageUtilization": percent, "averageValue": average}),
        ),
    };
    Ok(Proposal { replicas: output.replicas, metric, status })
}
