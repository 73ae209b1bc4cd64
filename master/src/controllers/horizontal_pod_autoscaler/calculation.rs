//! Computes the number of replicas for one resource metric from the usage of the pods. Pure.
//!
//! The number is `ceil(pods * current / target)`. Pods without a usable sample are left out first. If there are any, a
//! second calculation assumes the value for them that makes the change smaller.

use std::collections::BTreeMap;

use api::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};

use crate::objects::autoscaling::PodMetrics;
use crate::objects::{Pod, StringMap};

/// How long the CPU usage of a starting pod counts only while it is ready, as in stock Kubernetes.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_mins(5);
/// How long after its start a pod that was never ready may have become unready, as in stock Kubernetes.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);
/// The window of a metric that names none.
const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_mins(1);
/// The resource of which the first samples of a pod do not count.
const CPU: &str = "cpu";

/// The usage of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Thousandths of a unit: millicores, or thousandths of a byte.
    pub milli: i128,
    /// End of the window in which the usage was measured.
    pub timestamp: Option<Timestamp>,
    /// Length of the window.
    pub window: SignedDuration,
}

/// The target of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Percentage of the requests of the pods.
    Utilization(i64),
    /// Average of the pods, in thousandths.
    AverageValue(i128),
}

/// Deviations from the target that cause no change, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    pub up: i64,
    pub down: i64,
}

impl Default for Tolerance {
    /// A tenth, the stock default of `--horizontal-pod-autoscaler-tolerance`.
    fn default() -> Self {
        Self { up: 100, down: 100 }
    }
}

/// The input of a calculation.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub resource: &'a str,
    /// The only container that counts. `None` for all containers.
    pub container: Option<&'a str>,
    pub target: Target,
    pub tolerance: Tolerance,
    /// The replicas of the target's scale.
    pub current: i64,
    /// The pods that the target's selector matches.
    pub pods: &'a [Pod],
    /// Usage by pod name.
    pub usage: &'a BTreeMap<Box<str>, Usage>,
    pub now: Timestamp,
}

/// The result of a calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub replicas: i64,
    /// The current percentage of the requests, if that is the target.
    pub utilization: Option<i64>,
    /// The current average of the pods, in thousandths.
    pub average: i64,
}

/// Why there is no result. The messages are the stock ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalculationError {
    #[error("container {container} not present in metrics for pod {namespace}/{pod}")]
    UnknownContainer { container: String, namespace: String, pod: String },
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoUsage,
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    MissingRequest { resource: String, container: String, pod: String },
    #[error("no metrics returned matched known pods")]
    ZeroRequests,
}

/// Returns the usage of a resource by pod name. Pods without a value for the resource are omitted.
///
/// # Errors
/// If the metrics of a pod lack the container.
pub fn usage(
    metrics: &[PodMetrics],
    resource: &str,
    container: Option<&str>,
) -> Result<BTreeMap<Box<str>, Usage>, CalculationError> {
    let mut found = BTreeMap::new();
    for pod in metrics {
        let is_counted = |name: &str| container.is_none_or(|container| container == name);
        let containers: Vec<_> = pod.containers.iter().filter(|one| is_counted(&one.name)).collect();
        if let (Some(container), true) = (container, containers.is_empty()) {
            return Err(CalculationError::UnknownContainer {
                container: container.to_owned(),
                namespace: pod.metadata.namespace.to_string(),
                pod: pod.metadata.name.to_string(),
            });
        }
        let amounts: Option<Vec<i128>> =
            containers.iter().map(|container| milli(&container.usage, resource)).collect();
        if let Some(amounts) = amounts.filter(|amounts| !amounts.is_empty()) {
            let window = pod.window.parse().unwrap_or(DEFAULT_WINDOW);
            let usage = Usage { milli: amounts.iter().sum(), timestamp: pod.timestamp, window };
            found.insert(pod.metadata.name.clone(), usage);
        }
    }
    Ok(found)
}

/// Computes the replicas for a metric.
///
/// # Errors
/// If there are no pods, no usage, or no requests.
pub fn replicas(input: &Input<'_>) -> Result<Output, CalculationError> {
    if input.pods.is_empty() {
        return Err(CalculationError::NoPods);
    }
    let Groups { ready, unready, missing } = Groups::of(input);
    let mut counted = ready;
    if counted.is_empty() {
        return Err(CalculationError::NoUsage);
    }
    let requests = match input.target {
        Target::Utilization(_) => requests(input)?,
        Target::AverageValue(_) => BTreeMap::new(),
    };
    let (ratio, measured) = ratio(input.target, &counted, &requests)?;
    let output = |replicas: i64| Output { replicas, ..measured };
    let are_unready_counted = !unready.is_empty() && ratio.is_above();
    if missing.is_empty() && !are_unready_counted {
        let is_near = ratio.is_within(input.tolerance);
        return Ok(output(if is_near { input.current } else { ratio.times(counted.len()) }));
    }
    for pod in missing {
        if ratio.is_above() {
            counted.insert(pod, 0);
        } else if ratio.is_below() {
            counted.insert(pod, full_usage(input.target, requests.get(pod)));
        }
    }
    if are_unready_counted {
        counted.extend(unready.into_iter().map(|pod| (pod, 0)));
    }
    let (assumed, _) = self::ratio(input.target, &counted, &requests)?;
    let turns = (ratio.is_above() && assumed.is_below()) || (ratio.is_below() && assumed.is_above());
    if turns || assumed.is_within(input.tolerance) {
        return Ok(output(input.current));
    }
    let replicas = assumed.times(counted.len());
    // Pods that the scale does not count must not reverse the direction either.
    let is_reversed =
        (assumed.is_below() && replicas > input.current) || (assumed.is_above() && replicas < input.current);
    Ok(output(if is_reversed { input.current } else { replicas }))
}

/// The pods by what is known of their usage. Pods that have failed or are being deleted are in no group.
struct Groups<'a> {
    /// Pods with a usable sample, and their usage.
    ready: BTreeMap<&'a str, i128>,
    /// Pods that are pending or not ready, or just became ready.
    unready: Vec<&'a str>,
    /// Pods without a sample.
    missing: Vec<&'a str>,
}

impl<'a> Groups<'a> {
    fn of(input: &Input<'a>) -> Self {
        let mut groups = Self { ready: BTreeMap::new(), unready: Vec::new(), missing: Vec::new() };
        for pod in input.pods {
            let name = &*pod.metadata.name;
            if pod.metadata.is_terminating() || &*pod.status.phase == "Failed" {
                continue;
            }
            if &*pod.status.phase == "Pending" {
                groups.unready.push(name);
                continue;
            }
            match input.usage.get(name) {
                None => groups.missing.push(name),
                Some(usage) if input.resource == CPU && is_unready(pod, usage, input.now) => {
                    groups.unready.push(name);
                }
                Some(usage) => drop(groups.ready.insert(name, usage.milli)),
            }
        }
        groups
    }
}

/// Whether the CPU usage of a pod does not count, because the pod is still starting.
fn is_unready(pod: &Pod, usage: &Usage, now: Timestamp) -> bool {
    let (Some(ready), Some(start)) = (pod.status.conditions.of_type("Ready"), pod.status.start_time) else {
        return true;
    };
    let Some(changed) = ready.last_transition_time else { return true };
    let is_false = &*ready.status == "False";
    if now.duration_since(start) < CPU_INITIALIZATION {
        // The whole window must be after the pod became ready.
        is_false || usage.timestamp.is_none_or(|end| end.duration_since(changed) < usage.window)
    } else {
        // The pod has never been ready.
        is_false && changed.duration_since(start) < INITIAL_READINESS_DELAY
    }
}

/// Returns the requests of each pod, in thousandths.
fn requests<'a>(input: &Input<'a>) -> Result<BTreeMap<&'a str, i128>, CalculationError> {
    let of = |pod: &'a Pod| {
        let name = &*pod.metadata.name;
        if input.container.is_none()
            && let Some(request) = milli(&pod.spec.resources.requests, input.resource)
        {
            return Ok((name, request));
        }
        let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
        let counted = pod.spec.containers.iter().chain(sidecars);
        let counted = counted.filter(|one| input.container.is_none_or(|container| container == &*one.name));
        let request = |container: &crate::objects::pod::Container| {
            milli(&container.resources.requests, input.resource).ok_or_else(|| {
                CalculationError::MissingRequest {
                    resource: input.resource.to_owned(),
                    container: container.name.to_string(),
                    pod: name.to_owned(),
                }
            })
        };
        Ok((name, counted.map(request).sum::<Result<i128, _>>()?))
    };
    input.pods.iter().map(of).collect()
}

/// Returns an amount in thousandths.
fn milli(amounts: &StringMap, resource: &str) -> Option<i128> {
    amounts.get(resource)?.parse::<Quantity>().ok().map(|amount| amount.milli().into())
}

/// Returns the usage that is assumed of a pod without a sample when the others are below the target.
fn full_usage(target: Target, request: Option<&i128>) -> i128 {
    match target {
        Target::Utilization(percent) => request.copied().unwrap_or(0) * i128::from(percent.max(100)) / 100,
        Target::AverageValue(milli) => milli,
    }
}

/// A current value and its target, which is positive.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    current: i128,
    target: i128,
}

impl Ratio {
    fn is_above(self) -> bool {
        self.current > self.target
    }

    fn is_below(self) -> bool {
        self.current < self.target
    }

    fn is_within(self, tolerance: Tolerance) -> bool {
        let current = self.current * 1000;
        current <= self.target * (1000 + i128::from(tolerance.up))
            && current >= self.target * (1000 - i128::from(tolerance.down))
    }

    /// Returns the number of pods times the ratio, rounded up.
    fn times(self, pods: usize) -> i64 {
        let product = self.current * i128::try_from(pods).unwrap_or(i128::MAX);
        i64::try_from((product + self.target - 1) / self.target).unwrap_or(i64::MAX)
    }
}

/// Returns the ratio of the pods' usage to the target, and the current values.
fn ratio(
    target: Target,
    counted: &BTreeMap<&str, i128>,
    requests: &BTreeMap<&str, i128>,
) -> Result<(Ratio, Output), CalculationError> {
    let total: i128 = counted.values().sum();
    let average = total / i128::try_from(counted.len().max(1)).unwrap_or(1);
    let average_milli = i64::try_from(average).unwrap_or(i64::MAX);
    let (ratio, utilization) = match target {
        Target::AverageValue(milli) => (Ratio { current: average, target: milli.max(1) }, None),
        Target::Utilization(percent) => {
            let requested: i128 = counted.keys().filter_map(|pod| requests.get(pod)).sum();
            if requested == 0 {
                return Err(CalculationError::ZeroRequests);
            }
            let current = total * 100 / requested;
            let ratio = Ratio { current, target: i128::from(percent.max(1)) };
            (ratio, Some(i64::try_from(current).unwrap_or(i64::MAX)))
        }
    };
    Ok((ratio, Output { replicas: 0, utilization, average: average_milli }))
}
