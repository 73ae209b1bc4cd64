//! How far the server's clock and the one here are apart. Pure.

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};

use super::super::finding::{Finding, Severity};

/// Leases are renewed every ten seconds: clocks that are further apart than this are told of.
const NOTED: SignedDuration = SignedDuration::from_secs(5);
/// From here on nodes seem dead that are alive, and tokens seem to be of tomorrow.
const WRONG: SignedDuration = SignedDuration::from_secs(30);

/// What a server said the time was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The header `Date`, in whole seconds.
    pub date: String,
    /// The time here when the question was sent.
    pub sent: Timestamp,
    /// The time here when the answer was there.
    pub received: Timestamp,
}

impl Reading {
    /// The server's time; `None` when what it said is none.
    pub fn time(&self) -> Option<Timestamp> {
        DateTimeParser::new().parse_timestamp(&self.date).ok()
    }

    /// By how much the server is ahead for certain: nothing as long as its second may lie within the time of the question.
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

/// What is wrong with the clocks.
pub fn findings(reading: Option<&Reading>) -> Vec<Finding> {
    let Some(reading) = reading else { return Vec::new() };
    let Some(ahead) = reading.ahead() else {
        let what = "the master does not tell the time in its answers";
        let remedy = "look what stands between here and the master and changes its answers";
        return vec![Finding::warning("clock", what, remedy).because(format!("it said {:?}", reading.date))];
    };
    let apart = ahead.abs();
    if apart <= NOTED {
        return Vec::new();
    }
    let side = if ahead.is_positive() { "ahead of" } else { "behind" };
    let what = format!("the master's clock is {} s {side} the one here", apart.as_secs());
    let remedy = "set both by the same time servers (chrony, systemd-timesyncd), and those of the nodes too";
    let severity = if apart > WRONG { Severity::Problem } else { Severity::Warning };
    vec![Finding::problem("clock", what, remedy).graded(severity)]
}
