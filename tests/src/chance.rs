//! Chance that can be repeated: every choice of a fault test follows from one seed.

use std::time::{Duration, SystemTime};

/// A generator that gives the same choices for the same seed.
#[derive(Clone, Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// The generator of that seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The seed of this run: `CORACLE_SEED` to repeat one, else another each time. It is printed.
    pub fn seed() -> u64 {
        let given = std::env::var("CORACLE_SEED").ok().map(|text| text.parse().expect("a number"));
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
            now.as_secs() % 1_000_000
        });
        println!("to repeat this run: CORACLE_SEED={seed}");
        seed
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A time shorter than `longest`.
    pub fn moment(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.0.f64())
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
