//! One node and its kubelet on a real engine: pods from every local source, what a restart finds again, faults and kills.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod adoption;
mod bad_input;
mod client_commands;
mod compose;
mod config_and_secrets;
mod edit_and_delete;
mod engine_faults;
mod eviction;
mod full_disk;
mod images;
mod jobs;
mod kill_nine;
mod kubectl;
mod legacy;
mod local_services;
mod looking;
mod meddling;
mod packages;
mod page;
mod pushed;
mod run_from_directory;
mod runtime {
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
}
mod takeover;
mod url_source;
