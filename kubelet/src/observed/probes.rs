//! What probes have found out about running containers.

use std::collections::BTreeMap;

use super::Timestamp;

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Has it started?
    Startup,
    /// May it get traffic?
    Readiness,
    /// Must it be restarted?
    Liveness,
}

/// The standing verdict of one probe, after its thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Passed its threshold of successes (or, for liveness, not yet that of failures).
    pub success: bool,
    /// Since when this verdict stands.
    pub since: Timestamp,
    /// What the last failing probe said.
    pub message: String,
}

/// The standing verdicts of one pod's containers; none yet for a probe that has not decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    by_container: BTreeMap<(String, Kind), Verdict>,
}

impl Verdicts {
    /// The verdict on the container with that engine id.
    pub fn get(&self, container_id: &str, kind: Kind) -> Option<&Verdict> {
        self.by_container.get(&(container_id.to_owned(), kind))
    }

    /// Sets a verdict; true when it differs from the one that stood.
    pub fn set(&mut self, container_id: &str, kind: Kind, verdict: Verdict) -> bool {
        let old = self.by_container.insert((container_id.to_owned(), kind), verdict.clone());
        old.is_none_or(|old| old.success != verdict.success)
    }

    /// Drops verdicts on containers that are not among these.
    pub fn keep(&mut self, container_ids: &[&str]) {
        self.by_container.retain(|(id, _), _| container_ids.contains(&id.as_str()));
    }

    /// All verdicts, for writing them down.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Kind, &Verdict)> {
        self.by_container.iter().map(|((id, kind), v)| (id.as_str(), *kind, v))
    }
}
