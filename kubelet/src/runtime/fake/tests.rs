//! The fake keeps the contract that Docker keeps.

use super::*;

async fn bench(test: &str) -> Bench {
    Fake::new(test).bench()
}

crate::runtime_contract!(bench);
