//! Whatever bytes a client sends, as bodies, patches, queries, headers or inside of objects, it is told what is wrong with
//! them: nothing panics or hangs, and no mistake of a client is the server's.
//!
//! A few seconds each; `CORACLE_FUZZ_CASES=100000 cargo nextest run -p master --test fuzz` for as many.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bodies;
mod credentials;
mod damage;
mod protobuf;
mod queries;
mod seeds;
mod server;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Tries so many cases, or as many as are asked for; the same ones each time.
fn fuzz<S: Strategy>(few: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let asked = std::env::var("CORACLE_FUZZ_CASES").ok().map(|text| text.parse().unwrap());
    let config = Config { cases: asked.unwrap_or(few), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    match runner.run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\n{case:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
