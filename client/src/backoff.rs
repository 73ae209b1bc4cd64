//! Exponential backoff with jitter.

use std::time::Duration;

/// The value of `share` with which [`exponential_delay`] subtracts nothing, for retries that concern only one
/// client.
pub const NO_JITTER: f64 = 1.0;

/// The delay between failed attempts. It doubles with each failure up to a maximum.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff without failures.
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// Resets the number of failures, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a failure, and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = exponential_delay(self.initial, self.max, self.failures, random_share());
        self.failures = self.failures.saturating_add(1);
        delay
    }
}

/// Doubles `initial` for each failure up to `max`, then subtracts jitter. `share` is random, from 0 up to 1.
pub fn exponential_delay(initial: Duration, max: Duration, failures: u32, share: f64) -> Duration {
    jittered(initial.saturating_mul(2_u32.saturating_pow(failures)).min(max), share)
}

/// Returns a duration between three quarters and all of `whole`. `share` is random, from 0 up to 1.
pub fn jittered(whole: Duration, share: f64) -> Duration {
    whole.mul_f64(0.25_f64.mul_add(share.clamp(0.0, 1.0), 0.75))
}

/// Returns a random number from 0 up to 1.
pub fn random_share() -> f64 {
    fastrand::f64()
}

#[cfg(test)]
mod tests {
    //! Tests of delays of consecutive failures.
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_maximum_and_starts_again_after_a_success() {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(30));
        let whole = |failures| exponential_delay(initial, max, failures, 1.0).as_secs();
        assert_eq!([0, 1, 4, 5, 40].map(whole), [1, 2, 16, 30, 30]);
        assert_eq!(exponential_delay(initial, max, 2, 0.0), Duration::from_secs(3));
        let mut backoff = Backoff::new(initial, max);
        for failures in 0..8 {
            let delay = backoff.next_delay();
            assert!(delay >= exponential_delay(initial, max, failures, 0.0) && delay <= max);
        }
        assert_eq!(backoff.failures(), 8);
        backoff.reset();
        assert!(backoff.next_delay() <= initial);
    }
}
