//! The quality of service class of a Pod.

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

use crate::resources::{ResourceList, list};

/// The quality of service class. It determines the order of eviction under memory pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    /// The pod has no requests or limits, and is evicted first.
    BestEffort,
    /// The pod has some requests or limits.
    Burstable,
    /// In all containers, requests equal limits for CPU and memory. The pod is evicted last.
    Guaranteed,
}

impl QosClass {
    /// The value of `status.qosClass`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "BestEffort",
            Self::Burstable => "Burstable",
            Self::Guaranteed => "Guaranteed",
        }
    }
}

/// The class of a Pod. Only cpu and memory amounts above 0 count.
pub fn class(spec: &PodSpec) -> QosClass {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_pod = spec.resources.as_ref().map(|resources| vec![Some(resources)]);
    let parts = of_pod.unwrap_or_else(|| containers.map(|container| container.resources.as_ref()).collect());
    let mut has_requests = false;
    let mut exact = true;
    for resources in parts {
        let requests = counted(resources, |resources| list(resources.requests.as_ref()));
        let limits = counted(resources, |resources| list(resources.limits.as_ref()));
        has_requests |= !requests.is_empty() || !limits.is_empty();
        exact &= limits.len() == COUNTED.len() && requests == limits;
    }
    match (has_requests, exact) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

const COUNTED: [&str; 2] = ["cpu", "memory"];

fn counted(
    resources: Option<&ResourceRequirements>,
    part: impl Fn(&ResourceRequirements) -> ResourceList,
) -> ResourceList {
    let mut amounts = resources.map(part).unwrap_or_default();
    amounts.retain(|name, amount| COUNTED.contains(&name.as_str()) && !amount.is_zero());
    amounts
}

#[cfg(test)]
mod tests {
    //! Tests of QoS classes.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::class;

    fn check(containers: &[&str], expected: &str) {
        let text = format!("{{\"containers\":[{}]}}", containers.join(","));
        assert_eq!(class(&serde_json::from_str(&text).unwrap()).as_str(), expected, "{text}");
    }

    const FULL: &str = r#"{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1000m","memory":"1024Mi"}}}"#;

    #[test]
    fn each_class() {
        check(&[r#"{"name":"a"}"#], "BestEffort");
        check(
            &[r#"{"name":"a","resources":{"requests":{"cpu":"0"},"limits":{"ephemeral-storage":"1Gi"}}}"#],
            "BestEffort",
        );
        check(&[FULL], "Guaranteed");
        check(&[FULL, FULL], "Guaranteed");
        check(&[FULL, r#"{"name":"b"}"#], "Burstable");
        check(&[r#"{"name":"a","resources":{"requests":{"cpu":"1"}}}"#], "Burstable");
        check(
            &[
                r#"{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Mi"}}}"#,
            ],
            "Burstable",
        );
        check(&[r#"{"name":"a","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}"#], "Burstable");
    }
}
