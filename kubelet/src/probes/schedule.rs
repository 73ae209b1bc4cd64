//! Schedule of a probe. Times are ages of the container, so that this module reads no clock.
//!
//! Without an initial delay, failures in the first period do not count. In that period, startup and readiness
//! probes run at exponentially growing intervals. A server that starts in 50 ms therefore need not wait for a whole
//! period. Afterwards every attempt counts and follows the period.

use std::time::Duration;

/// One attempt of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The age of the container.
    pub at: Duration,
    /// Whether a failure counts. A success always counts.
    pub counts: bool,
}

/// The attempts of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    period: Duration,
    due: Duration,
    early: Option<Duration>,
    gap: Duration,
}

impl Schedule {
    /// Creates a schedule with one attempt per period, the first at the age `first`.
    pub fn from(first: Duration, period: Duration) -> Self {
        Self { period, due: first, early: None, gap: Duration::ZERO }
    }

    /// Creates a schedule with one attempt per period, the first after one period.
    pub fn periodic(period: Duration) -> Self {
        Self::from(period, period)
    }

    /// Creates a schedule like [`Schedule::periodic`] with additional attempts in the first period. They are at
    /// once, and after `gap`, twice `gap`, four times `gap` and so on.
    pub fn with_early_attempts(period: Duration, gap: Duration) -> Self {
        Self { early: Some(Duration::ZERO), gap, ..Self::periodic(period) }
    }

    pub fn next(&self) -> Attempt {
        match self.early {
            Some(at) => Attempt { at, counts: false },
            None => Attempt { at: self.due, counts: true },
        }
    }

    /// Records an attempt that ended at this age. After an attempt that took longer than the period, the next one
    /// is due at once, and missed ones are skipped.
    pub fn record(&mut self, look: Attempt, age: Duration, success: bool) {
        if look.counts {
            let periods = (age.saturating_sub(self.due).as_nanos() / self.period.as_nanos().max(1)).max(1);
            self.due += self.period * u32::try_from(periods).unwrap_or(u32::MAX);
            return;
        }
        let next = self.gap.max(age * 2);
        self.early = (!success && next < self.due).then_some(next);
    }
}
