//! Checks the clocks of nodes against that of the API server. Pure.
//!
//! A node dates its lease renewals by its own clock. The clock is wrong if a renewal is later than the server's
//! current time. It is also wrong if a renewal is earlier than the creation of an object with a smaller
//! resourceVersion, because the server dates creations.

use jiff::{SignedDuration, Timestamp};

use super::World;
use super::kinds::Node;
use crate::check::finding::{Finding, Severity, Subject};
use crate::objects::Lease;

/// Smallest difference that is reported. Smaller ones may be caused by the renewal itself.
const NOTED: SignedDuration = SignedDuration::from_secs(15);
/// Difference from which the node seems to send no heartbeats, and tokens and certificates seem invalid.
const WRONG: SignedDuration = SignedDuration::from_secs(30);

/// A lower bound of the server's time at each resourceVersion.
#[derive(Debug)]
pub struct ServerClock {
    now: Timestamp,
    /// Resource versions in ascending order, each with the latest creation time up to it.
    created: Vec<(u64, Timestamp)>,
}

impl ServerClock {
    /// Derives the bounds from all objects that were read.
    pub fn of(world: &World) -> Self {
        let mut created = world.created.clone();
        created.sort_unstable();
        let mut latest = Timestamp::MIN;
        for (_, time) in &mut created {
            latest = latest.max(*time);
            *time = latest;
        }
        Self { now: world.now, created }
    }

    /// How far the clock of the lease holder is ahead, or behind if negative. `None` if that is unknown or small.
    pub fn offset(&self, lease: &Lease) -> Option<SignedDuration> {
        let renewed = lease.spec.renew_time?;
        let revision: u64 = lease.metadata.resource_version.parse().unwrap_or_default();
        let older = self.created.partition_point(|(other, _)| *other < revision);
        let earliest = older.checked_sub(1).and_then(|last| self.created.get(last)).map(|(_, time)| *time);
        let ahead = renewed.duration_since(self.now);
        let behind = earliest.map(|earliest| renewed.duration_since(earliest));
        [Some(ahead).filter(|ahead| *ahead > NOTED), behind.filter(|behind| *behind < -NOTED)]
            .into_iter()
            .flatten()
            .next()
    }
}

pub fn finding(clock: &ServerClock, node: &Node, lease: &Lease) -> Option<Finding> {
    let offset = clock.offset(lease)?;
    let (side, seconds) = (if offset.is_positive() { "ahead of" } else { "behind" }, offset.abs().as_secs());
    let what = format!("its clock is {seconds} s {side} the master's");
    let remedy = "synchronize the clocks of the node and of the master with the same time servers (chrony, systemd-timesyncd)";
    let severity = if offset.abs() > WRONG { Severity::Problem } else { Severity::Warning };
    let cause = format!("its lease says {}", lease.spec.renew_time.unwrap_or_default());
    Some(Finding::problem(Subject::of("Node", &node.metadata), what, remedy).graded(severity).because(cause))
}
