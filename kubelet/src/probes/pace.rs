//! When a probe looks next. Times are the container's age, so that nothing here reads a clock.
//!
//! A container that was given no initial delay is young for one period: failures do not count yet, and probes it
//! waits for (startup, readiness) look ever more rarely within that period instead of once, so that a server that
//! needs 50 ms to bind is not found ready a whole period later. After that every look counts and keeps to the grid.

use std::time::Duration;

/// One look of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The container's age.
    pub at: Duration,
    /// Whether a failure counts; a success always does.
    pub counts: bool,
}

/// The looks of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    period: Duration,
    due: Duration,
    early: Option<Duration>,
    gap: Duration,
}

impl Pace {
    /// Looks once a period, first at that age.
    pub fn from(first: Duration, period: Duration) -> Self {
        Self { period, due: first, early: None, gap: Duration::ZERO }
    }

    /// Looks once a period, first when the container has lived for one.
    pub fn patient(period: Duration) -> Self {
        Self::from(period, period)
    }

    /// As [`Pace::patient`], and at once and after `gap`, twice `gap`, four times `gap`... within the first period.
    pub fn eager(period: Duration, gap: Duration) -> Self {
        Self { early: Some(Duration::ZERO), gap, ..Self::patient(period) }
    }

    /// The next look.
    pub fn next(&self) -> Look {
        match self.early {
            Some(at) => Look { at, counts: false },
            None => Look { at: self.due, counts: true },
        }
    }

    /// A look has been taken and was over at that age. A probe that outlasts its period is followed by the next one
    /// at once, and skips the looks it slept through.
    pub fn looked(&mut self, look: Look, age: Duration, success: bool) {
        if look.counts {
            let periods = (age.saturating_sub(self.due).as_nanos() / self.period.as_nanos().max(1)).max(1);
            self.due += self.period * u32::try_from(periods).unwrap_or(u32::MAX);
            return;
        }
        let next = self.gap.max(age * 2);
        self.early = (!success && next < self.due).then_some(next);
    }
}
