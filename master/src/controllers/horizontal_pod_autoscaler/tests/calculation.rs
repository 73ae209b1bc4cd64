//! Tests of the replicas for one metric, with the examples of the Kubernetes documentation.

use serde_json::{Value, json};

use super::*;
use crate::controllers::horizontal_pod_autoscaler::calculation::{
    CalculationError, Input, Output, Target, Tolerance, replicas, usage,
};

/// Pods and their metrics.
#[derive(Default)]
struct Case {
    pods: Vec<Value>,
    metrics: Vec<Value>,
    tolerance: Tolerance,
    /// The replicas of the scale, if they are not the number of pods.
    current: Option<i64>,
}

impl Case {
    /// Ready pods that request 100m each, with this usage.
    fn using(cpu: &[&str]) -> Self {
        let mut case = Self::default();
        for (index, cpu) in cpu.iter().enumerate() {
            case = case.and(pod(&index.to_string(), "100m"), Some(cpu));
        }
        case
    }

    /// Adds a pod, with or without metrics.
    fn and(mut self, pod: Value, cpu: Option<&str>) -> Self {
        self.metrics.extend(cpu.map(|cpu| metrics(pod["metadata"]["name"].as_str().unwrap(), cpu)));
        self.pods.push(pod);
        self
    }

    fn compute(
        &self,
        resource: &str,
        container: Option<&str>,
        target: Target,
    ) -> Result<Output, CalculationError> {
        let usage = usage(&pod_metrics(&self.metrics), resource, container)?;
        let pods = pods(&self.pods);
        let current = self.current.unwrap_or(i64::try_from(pods.len()).unwrap());
        let (tolerance, now) = (self.tolerance, noon());
        replicas(&Input { resource, container, target, tolerance, current, pods: &pods, usage: &usage, now })
    }

    fn average(&self, milli: i128) -> i64 {
        self.compute("cpu", None, Target::AverageValue(milli)).unwrap().replicas
    }

    fn utilization(&self, percent: i64) -> i64 {
        self.compute("cpu", None, Target::Utilization(percent)).unwrap().replicas
    }
}

#[test]
fn the_number_of_pods_follows_the_ratio_of_current_to_target() {
    // If the current value is 200m and the target 100m, the number doubles; at 50m it is halved.
    assert_eq!(Case::using(&["200m", "200m"]).average(100), 4);
    assert_eq!(Case::using(&["50m", "50m"]).average(100), 1);
    // Rounded up.
    assert_eq!(Case::using(&["50m", "50m", "50m"]).average(100), 2);
    assert_eq!(Case::using(&["130m", "90m"]).utilization(50), 5);
    let output = Case::using(&["150m", "50m"]).compute("cpu", None, Target::Utilization(50)).unwrap();
    assert_eq!(output, Output { replicas: 4, utilization: Some(100), average: 100 });
    let memory =
        Case::using(&["1", "1"]).compute("memory", None, Target::AverageValue(5 * 1024 * 1024 * 1000));
    assert_eq!(memory.unwrap(), Output { replicas: 4, utilization: None, average: 10 * 1024 * 1024 * 1000 });
}

#[test]
fn a_ratio_within_the_tolerance_changes_nothing() {
    for (cpu, expected) in [("110m", 3), ("111m", 4), ("90m", 3), ("89m", 3), ("66m", 2)] {
        assert_eq!(Case::using(&[cpu, cpu, cpu]).average(100), expected, "{cpu}");
    }
    // The scale has more replicas than there are pods.
    let case = Case { current: Some(5), ..Case::using(&["105m", "95m"]) };
    assert_eq!(case.average(100), 5);
    let strict = Case { tolerance: Tolerance { up: 10, down: 500 }, ..Case::using(&["105m"; 20]) };
    assert_eq!(strict.average(100), 21, "a tolerance of 1 % above");
    let lax = Case { tolerance: Tolerance { up: 10, down: 500 }, ..Case::using(&["60m"; 20]) };
    assert_eq!(lax.average(100), 20, "a tolerance of 50 % below");
}

#[test]
fn pods_that_end_do_not_count() {
    let mut ending = pod("ending", "100m");
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:59Z".into();
    let mut failed = pod("failed", "100m");
    failed["status"]["phase"] = "Failed".into();
    let case = Case::using(&["200m"]).and(ending, Some("900m")).and(failed, Some("900m"));
    assert_eq!(case.average(100), 2);
}

#[test]
fn pods_without_metrics_dampen_a_change() {
    let missing = |case: Case| case.and(pod("missing", "100m"), None);
    // Scaling up, a pod without metrics uses nothing: (200 + 200 + 0) / 3 = 133 of 100.
    assert_eq!(missing(Case::using(&["200m", "200m"])).average(100), 4);
    // Scaling down, it uses the target: (20 + 20 + 100) / 3 = 46 of 100.
    assert_eq!(missing(Case::using(&["20m", "20m"])).average(100), 2);
    // For a percentage it uses its whole request: (10 + 10 + 100) / 300 = 40 of 50.
    assert_eq!(missing(Case::using(&["10m", "10m"])).utilization(50), 3);
    // A change of the direction means no change: (120 + 0) / 2 = 60.
    assert_eq!(missing(Case::using(&["120m"])).average(100), 2);
    // At the target, nothing is assumed.
    assert_eq!(missing(Case::using(&["100m"])).average(100), 2);
}

#[test]
fn pods_that_are_not_ready_dampen_only_growth() {
    let both = |cpu: &str| Case::using(&[cpu, cpu]).and(unready("new", "100m"), Some("900m"));
    // (200 + 200 + 0) / 3 = 133 of 100.
    assert_eq!(both("200m").average(100), 4);
    assert_eq!(both("50m").average(100), 1);
    let mut pending = pod("pending", "100m");
    pending["status"] = json!({"phase": "Pending"});
    assert_eq!(Case::using(&["200m", "200m"]).and(pending, None).average(100), 4);
    // Readiness only counts for CPU.
    let memory = both("1").compute("memory", None, Target::AverageValue(5 * 1024 * 1024 * 1000));
    assert_eq!(memory.unwrap().replicas, 6);
}

#[test]
fn samples_of_a_starting_pod_do_not_count() {
    let started = |at: &str, status: &str, changed: &str| {
        let mut pod = pod("new", "100m");
        pod["status"]["startTime"] = at.into();
        let ready = json!([{"type": "Ready", "status": status, "lastTransitionTime": changed}]);
        pod["status"]["conditions"] = ready;
        Case::using(&["50m"]).and(pod, Some("350m")).average(100)
    };
    // The window from 11:59:35 to 11:59:50 must begin after the pod became ready.
    assert_eq!(started("2026-01-01T11:58:00Z", "True", "2026-01-01T11:59:34Z"), 4);
    assert_eq!(started("2026-01-01T11:58:00Z", "True", "2026-01-01T11:59:36Z"), 1);
    assert_eq!(started("2026-01-01T11:58:00Z", "False", "2026-01-01T11:58:01Z"), 1);
    // After five minutes, only a pod that was never ready is left out.
    assert_eq!(started("2026-01-01T11:54:00Z", "True", "2026-01-01T11:59:36Z"), 4);
    assert_eq!(started("2026-01-01T11:54:00Z", "False", "2026-01-01T11:59:36Z"), 4);
    assert_eq!(started("2026-01-01T11:54:00Z", "False", "2026-01-01T11:54:20Z"), 1);
}

#[test]
fn pods_that_the_scale_does_not_count_do_not_reverse_the_direction() {
    // Of three pods, two have metrics; the scale has one replica. The ratio is (20 + 20 + 100) / 3 = 46 %.
    let case = Case { current: Some(1), ..Case::using(&["20m", "20m"]).and(pod("missing", "100m"), None) };
    assert_eq!(case.average(100), 1);
}

#[test]
fn requests_of_sidecars_and_pods_count_and_absent_ones_are_errors() {
    let mut sidecar = pod("a", "100m");
    sidecar["spec"]["initContainers"] = json!([
        {"name": "init"},
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
    ]);
    assert_eq!(Case::default().and(sidecar, Some("200m")).utilization(50), 2);
    let mut whole = pod("a", "100m");
    whole["spec"]["resources"]["requests"]["cpu"] = "400m".into();
    assert_eq!(Case::default().and(whole, Some("400m")).utilization(50), 2);

    let mut bare = pod("a", "100m");
    bare["spec"]["containers"] = json!([{"name": "main"}]);
    let case = Case::default().and(bare, Some("100m"));
    let error = case.compute("cpu", None, Target::Utilization(50)).unwrap_err();
    assert_eq!(error.to_string(), "missing request for cpu in container main of Pod a");
    assert_eq!(case.average(50), 2, "an average needs no requests");
    let zero = Case::default().and(pod("a", "0"), Some("100m")).compute("cpu", None, Target::Utilization(50));
    assert_eq!(zero.unwrap_err(), CalculationError::ZeroRequests);
}

#[test]
fn one_container_can_be_counted_alone() {
    let mut both = pod("a", "100m");
    both["spec"]["containers"] = json!([
        {"name": "main", "resources": {"requests": {"cpu": "100m"}}}, {"name": "other"},
    ]);
    let mut case = Case::default().and(both, Some("200m"));
    let other = json!({"name": "other", "usage": {"cpu": "1"}});
    case.metrics[0]["containers"].as_array_mut().unwrap().push(other);
    assert_eq!(case.compute("cpu", Some("main"), Target::Utilization(100)).unwrap().replicas, 2);
    assert_eq!(case.average(100), 12);
    let error = case.compute("cpu", Some("gone"), Target::Utilization(100)).unwrap_err();
    assert_eq!(error.to_string(), "container gone not present in metrics for pod shop/a");
}

#[test]
fn without_pods_or_usable_metrics_there_is_no_result() {
    let of = |case: Case| case.compute("cpu", None, Target::AverageValue(100)).unwrap_err();
    assert_eq!(of(Case::default()), CalculationError::NoPods);
    assert_eq!(of(Case::default().and(pod("a", "100m"), None)), CalculationError::NoUsage);
    assert_eq!(of(Case::default().and(unready("a", "100m"), Some("1"))), CalculationError::NoUsage);
    // Metrics of pods that are not selected do not count.
    let mut case = Case::using(&["200m"]);
    case.metrics.push(metrics("stranger", "900m"));
    assert_eq!(case.average(100), 2);
}
