//! Detects that this process was suspended, for instance because the machine slept. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How often the detector must be called, as the interval of the stock node monitor.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Number of missed checks after which the process counts as suspended. With fewer, a busy machine would count as
/// suspended.
const MISSED_CHECKS: u32 = 4;

/// The time since which the process has run without a gap.
#[derive(Debug)]
pub struct SuspendDetector {
    interval: Duration,
    last: Option<Instant>,
    since: Option<Instant>,
}

impl SuspendDetector {
    /// Creates a detector that is called at the given interval.
    pub fn new(interval: Duration) -> Self {
        Self { interval, last: None, since: None }
    }

    /// The check interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Records a check. If there is a gap since the last check, the observation restarts.
    pub fn tick(&mut self, now: Instant) {
        if self.last.is_none_or(|last| now.saturating_duration_since(last) > self.interval * MISSED_CHECKS) {
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// Restarts the observation, because the API server could not be reached.
    pub fn reset(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Returns the start of the uninterrupted observation, or `at` if `at` is later.
    pub fn observed_since(&self, at: Instant) -> Instant {
        self.since.map_or(at, |since| since.max(at))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of detected gaps.
    use super::*;

    #[test]
    fn suspend_resets_the_observation_time() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut detector = SuspendDetector::new(CHECK_INTERVAL);
        for seconds in [0, 5, 10, 29] {
            detector.tick(after(seconds));
            assert_eq!(detector.observed_since(start), start, "{seconds}");
        }
        detector.tick(after(50));
        assert_eq!(detector.observed_since(start), after(50));
        assert_eq!(detector.observed_since(after(60)), after(60));
        detector.reset(after(70));
        assert_eq!(detector.observed_since(after(60)), after(70));
    }
}
