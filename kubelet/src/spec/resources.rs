//! Resource limits and OOM score of a container, from its requests and limits.

use api::qos::{QosClass, class};
use api::quantity::Quantity;
use api::resources::is_sidecar;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use super::ConfigError;
use super::facts::{CgroupDriver, Facts};
use crate::runtime::spec::Resources;

/// Minimum of cgroup v1 CPU shares. Containers without requests have it.
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
/// CPU shares per core.
const SHARES_A_CORE: i64 = 1024;
/// CFS period in microseconds; the default of the kernel and of Kubernetes.
const QUOTA_PERIOD: i64 = 100_000;
/// Smallest CFS quota in microseconds that the kernel accepts.
const MIN_QUOTA: i64 = 1000;

/// `oom_score_adj` of Guaranteed pods, which are killed last.
const GUARANTEED_OOM: i64 = -997;
/// `oom_score_adj` of BestEffort pods, which are killed first.
const BEST_EFFORT_OOM: i64 = 1000;

/// The resource limits of a container.
///
/// # Errors
/// If it requests something that this node cannot provide.
pub(super) fn of(container: &Container, facts: &Facts) -> Result<Resources, ConfigError> {
    let Some(resources) = &container.resources else { return Ok(limits(None, None, None, facts)) };
    if let Some(claim) = resources.claims.iter().flatten().next() {
        return Err(ConfigError::container(format!(
            "resources.claims: {} cannot be claimed: this node has no devices to claim",
            claim.name
        )));
    }
    let cpu_limit = limit(resources, "cpu").map(Quantity::milli);
    Ok(limits(request(resources, "cpu").map(Quantity::milli), cpu_limit, limit(resources, "memory"), facts))
}

fn limits(
    cpu_request: Option<i64>,
    cpu_limit: Option<i64>,
    memory: Option<Quantity>,
    facts: &Facts,
) -> Resources {
    let cpu_limit = cpu_limit.filter(|&milli| milli > 0);
    Resources {
        cpu_shares: Some(shares(cpu_request.or(cpu_limit).unwrap_or(0))),
        cpu_quota: cpu_limit.map(quota),
        cpu_period: cpu_limit.map(|_| QUOTA_PERIOD),
        memory_bytes: memory.map(Quantity::units).filter(|&bytes| bytes > 0),
        pids: facts.pids_limit.filter(|&pids| pids > 0),
    }
}

fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_A_CORE) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

fn quota(milli: i64) -> i64 {
    (milli.saturating_mul(QUOTA_PERIOD) / 1000).max(MIN_QUOTA)
}

/// `oom_score_adj` of a container. The larger its memory request, the lower it is.
pub(super) fn oom_score_adj(spec: &PodSpec, container: &Container, facts: &Facts) -> i32 {
    let critical = spec.priority_class_name.as_deref() == Some("system-node-critical");
    let score = match class(spec) {
        _ if critical => GUARANTEED_OOM,
        QosClass::Guaranteed => GUARANTEED_OOM,
        QosClass::BestEffort => BEST_EFFORT_OOM,
        QosClass::Burstable => {
            let mut memory = memory_request(container);
            if is_sidecar(container) {
                // A sidecar must not be killed before the containers it serves.
                memory = memory.max(spec.containers.iter().map(memory_request).min().unwrap_or(0));
            }
            let part = i128::from(memory) * 1000 / i128::from(facts.memory_bytes.max(1));
            (1000 - i64::try_from(part).unwrap_or(1000)).clamp(1000 + GUARANTEED_OOM, BEST_EFFORT_OOM - 1)
        }
    };
    // Always between -1000 and 1000.
    i32::try_from(score).unwrap_or_default()
}

/// The pod's cgroup in the format of the driver, or `None` if pods have no cgroup.
pub(super) fn cgroup_parent(spec: &PodSpec, uid: &str, facts: &Facts) -> Option<String> {
    let class = match class(spec) {
        QosClass::Guaranteed => "",
        QosClass::Burstable => "burstable",
        QosClass::BestEffort => "besteffort",
    };
    let root = facts.cgroup_root.trim_matches('/');
    let parts = [root, "kubepods", class].into_iter().filter(|part| !part.is_empty());
    Some(match facts.cgroup_driver? {
        CgroupDriver::Cgroupfs => {
            parts.fold(String::new(), |path, part| format!("{path}/{part}")) + "/pod" + uid
        }
        // In slice names a dash separates levels, so dashes in a UID become underscores.
        CgroupDriver::Systemd => {
            parts.fold(String::new(), |path, part| path + &part.replace('-', "_").replace('/', "-") + "-")
                + "pod"
                + &uid.replace('-', "_")
                + ".slice"
        }
    })
}

/// Path and limits of the pod's cgroup. The limits are sums over its containers, and apply only if every container
/// has one. `None` if pods have no cgroup.
pub(super) fn of_pod(spec: &PodSpec, uid: &str, facts: &Facts) -> Option<(String, bool, Resources)> {
    let path = cgroup_parent(spec, uid, facts)?;
    let requests = api::resources::pod_requests(spec);
    let sums = api::resources::pod_limits(spec);
    let everywhere = |name: &str| {
        super::containers(spec)
            .all(|c| c.resources.as_ref().is_some_and(|resources| limit(resources, name).is_some()))
    };
    let sum = |name: &str| sums.get(name).copied().filter(|_| everywhere(name));
    let request = requests.get("cpu").copied().map(Quantity::milli);
    let resources = limits(request, sum("cpu").map(Quantity::milli), sum("memory"), facts);
    Some((path, class(spec) == QosClass::Burstable, resources))
}

fn memory_request(container: &Container) -> i64 {
    container.resources.as_ref().and_then(|r| request(r, "memory")).map_or(0, Quantity::units)
}

fn request(resources: &ResourceRequirements, name: &str) -> Option<Quantity> {
    Quantity::of(resources.requests.as_ref()?.get(name)?).ok()
}

fn limit(resources: &ResourceRequirements, name: &str) -> Option<Quantity> {
    Quantity::of(resources.limits.as_ref()?.get(name)?).ok()
}

#[cfg(test)]
mod tests;
