//! Chance that can be repeated: every choice of a fault test follows from one seed.

use std::time::{Duration, SystemTime};

/// A generator (splitmix64) that gives the same choices for the same seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The generator of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
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

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("it is below an usize")
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A time shorter than `longest`.
    pub fn moment(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as usize) as u64)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
