//! Fuzz tests of the API server: damaged bodies, patches, queries, headers and objects get a client error with its cause.
//! No request panics, hangs or causes an internal error.
//!
//! Each test takes a few seconds; `CORACLE_FUZZ_CASES=100000` sets the number of cases.
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

/// Runs this many cases, or `CORACLE_FUZZ_CASES` of them. They are the same in each run.
fn fuzz<S: Strategy>(few: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let case_count = std::env::var("CORACLE_FUZZ_CASES").ok().map(|text| text.parse().unwrap());
    let config = Config { cases: case_count.unwrap_or(few), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    match runner.run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\n{case:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
