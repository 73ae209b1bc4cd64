//! Notices that this process did not run for a while: a machine that slept, a process that was stopped. What was not heard
//! meanwhile was not silence. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How often somebody has to look at least; the stock node controller looks as often.
pub const PULSE: Duration = Duration::from_secs(5);
/// After so many pulses without a look this process was away: fewer, and a busy machine would be taken for one that slept.
const MISSED: u32 = 4;

/// Since when somebody has been looking without a gap.
#[derive(Debug)]
pub struct Awake {
    pulse: Duration,
    last: Option<Instant>,
    since: Option<Instant>,
}

impl Awake {
    /// Somebody looks that often.
    pub fn new(pulse: Duration) -> Self {
        Self { pulse, last: None, since: None }
    }

    /// How often to look.
    pub fn pulse(&self) -> Duration {
        self.pulse
    }

    /// Somebody looks now.
    pub fn look(&mut self, now: Instant) {
        if self.last.is_none_or(|last| now.saturating_duration_since(last) > self.pulse * MISSED) {
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// What there was until now is not known: the server could not be asked.
    pub fn doubt(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Since when nothing was missed; the later of that and `at`.
    pub fn at_earliest(&self, at: Instant) -> Instant {
        self.since.map_or(at, |since| since.max(at))
    }
}

#[cfg(test)]
mod tests {
    //! Gaps.
    use super::*;

    #[test]
    fn a_gap_begins_everything_anew() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut awake = Awake::new(PULSE);
        for seconds in [0, 5, 10, 29] {
            awake.look(after(seconds));
            assert_eq!(awake.at_earliest(start), start, "{seconds}");
        }
        awake.look(after(50));
        assert_eq!(awake.at_earliest(start), after(50));
        assert_eq!(awake.at_earliest(after(60)), after(60));
        awake.doubt(after(70));
        assert_eq!(awake.at_earliest(after(60)), after(70));
    }
}
