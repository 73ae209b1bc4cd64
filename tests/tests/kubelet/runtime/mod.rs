//! The Docker implementation of the kubelet's container runtime interface.

use std::sync::Arc;

use kubelet::runtime::contract::Bench;
use kubelet::runtime::docker::{Docker, Settings, pause_image};
use tests::{Engine, IMAGE};

mod docker;
mod pull;

/// A bench whose nodes are named after the test and this test run.
async fn bench(test: &str) -> Bench {
    Engine::connect().await;
    let node = format!("contract-{}-{test}", std::process::id());
    let docker =
        |node: &str| Arc::new(Docker::connect(&Engine::endpoint(), node, Settings::default()).unwrap());
    Bench {
        runtime: docker(&node),
        neighbour: docker(&format!("{node}-neighbour")),
        sandbox_image: pause_image().to_owned(),
        image: IMAGE.to_owned(),
    }
}

kubelet::runtime_contract!(bench);
