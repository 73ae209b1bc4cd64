//! Reproducible randomness: one seed determines every choice of a fault test.

use std::time::{Duration, SystemTime};

/// A random number generator that makes the same choices for the same seed.
#[derive(Clone, Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// Creates a generator with the given seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns the seed of this run, and prints it. The seed is `CORACLE_SEED`, or random.
    pub fn seed() -> u64 {
        let given = std::env::var("CORACLE_SEED").ok().map(|text| text.parse().expect("a number"));
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
            now.as_secs() % 1_000_000
        });
        println!("to repeat this run: CORACLE_SEED={seed}");
        seed
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    /// Returns true with probability 1 in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns a duration shorter than `longest`.
    pub fn moment(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.0.f64())
    }

    /// Returns a random element.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
