//! The fake keeps the contract that Docker keeps.

use std::sync::Arc;

use super::*;
use crate::runtime::contract::Bench;

async fn bench(test: &str) -> Bench {
    let fake = Fake::new(test);
    Bench {
        neighbour: Arc::new(fake.neighbour("neighbour")),
        runtime: Arc::new(fake),
        sandbox_image: "coracle/pause:fake".to_owned(),
        image: "coracle/busybox:1".to_owned(),
    }
}

crate::runtime_contract!(bench);
