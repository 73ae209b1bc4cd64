//! Checks the clock skew between the API server and this machine. Pure.

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

use super::super::finding::{Finding, Severity};

/// Smallest clock skew that is reported. Leases are renewed every ten seconds.
const NOTED: SignedDuration = SignedDuration::from_secs(5);
/// Clock skew from which live nodes seem dead, and tokens seem to be issued in the future.
const WRONG: SignedDuration = SignedDuration::from_secs(30);

/// A reading of the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The `Date` header, in whole seconds.
    pub date: String,
    /// Local time when the request was sent.
    pub sent: Timestamp,
    /// Local time when the response arrived.
    pub received: Timestamp,
}

impl Reading {
    /// The server's time, or `None` if the header is invalid.
    pub fn time(&self) -> Option<Timestamp> {
        DateTimeParser::new().parse_timestamp(&self.date).ok()
    }

    /// How far the server's clock is certainly ahead, or behind if negative. It considers the duration of the
    /// request and the resolution of one second.
    fn ahead(&self) -> Option<SignedDuration> {
        let from = self.time()?;
        let to = from.checked_add(SignedDuration::from_secs(1)).ok()?;
        Some(if from > self.received {
            from.duration_since(self.received)
        } else if to < self.sent {
            to.duration_since(self.sent)
        } else {
            SignedDuration::ZERO
        })
    }
}

/// Finding for a clock skew.
pub fn findings(reading: Option<&Reading>) -> Vec<Finding> {
    let Some(reading) = reading else { return Vec::new() };
    let Some(ahead) = reading.ahead() else {
        let what = "the master sends no valid time";
        let remedy = "find the proxy between here and the master that changes its responses";
        return vec![Finding::warning("clock", what, remedy).because(format!("it said {:?}", reading.date))];
    };
    let apart = ahead.abs();
    if apart <= NOTED {
        return Vec::new();
    }
    let side = if ahead.is_positive() { "ahead of" } else { "behind" };
    let what = format!("the master's clock is {} s {side} the local one", apart.as_secs());
    let remedy = "synchronize both clocks and those of the nodes with the same time servers (chrony, systemd-timesyncd)";
    let severity = if apart > WRONG { Severity::Problem } else { Severity::Warning };
    vec![Finding::problem("clock", what, remedy).graded(severity)]
}
