//! Results of container probes.

use std::collections::BTreeMap;

use super::Timestamp;

/// Type of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Startup probe.
    Startup,
    /// Readiness probe.
    Readiness,
    /// Liveness probe.
    Liveness,
}

/// The current result of a probe, after its thresholds were applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// Whether the success threshold is reached. For liveness: whether the failure threshold is not reached.
    pub success: bool,
    /// Time of the last change of the result.
    pub since: Timestamp,
    /// Message of the last failure.
    pub message: String,
}

/// The current probe results of one pod's containers. Probes without a result are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeResults {
    by_container: BTreeMap<(String, Kind), ProbeResult>,
}

impl ProbeResults {
    /// The result for the container with this engine id.
    pub fn get(&self, container_id: &str, kind: Kind) -> Option<&ProbeResult> {
        self.by_container.get(&(container_id.to_owned(), kind))
    }

    /// Stores a result. Returns true if it differs from the previous one.
    pub fn set(&mut self, container_id: &str, kind: Kind, probe_result: ProbeResult) -> bool {
        let old = self.by_container.insert((container_id.to_owned(), kind), probe_result.clone());
        old.is_none_or(|old| old.success != probe_result.success)
    }

    /// Removes the results of all containers except the given ones.
    pub fn keep(&mut self, container_ids: &[&str]) {
        self.by_container.retain(|(id, _), _| container_ids.contains(&id.as_str()));
    }

    /// All results, for the checkpoint.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Kind, &ProbeResult)> {
        self.by_container.iter().map(|((id, kind), v)| (id.as_str(), *kind, v))
    }
}
