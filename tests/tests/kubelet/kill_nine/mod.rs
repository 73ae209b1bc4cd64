//! `kill -9` of the kubelet at 200 random moments while pods start, change and end: it restarts or duplicates no container, and
//! after each kill the containers match the manifests again.
//!
//! Several nodes run this side by side on one engine. `CORACLE_SEED` repeats the choices of a run, `CORACLE_KILLS` sets the number
//! of kills.

mod node;
mod slot;

use std::time::Duration;

use bollard::query_parameters::{RemoveImageOptions, TagImageOptionsBuilder};
use futures_util::future::join_all;
use node::Node;
use slot::Sort;
use tests::{Chance, Engine, IMAGE};

/// The number of kills of all nodes together.
const KILLS: usize = 200;

/// The pods of each node; each kind appears twice, so that no kind depends on the luck of one node.
const NODES: [&[Sort]; 4] = [
    &[Sort::Plain, Sort::Init, Sort::Job, Sort::Config],
    &[Sort::Sidecar, Sort::Probed, Sort::HostPort, Sort::Crashing],
    &[Sort::Plain, Sort::Sidecar, Sort::Config, Sort::HostPort],
    &[Sort::Init, Sort::Probed, Sort::Job, Sort::Crashing],
];

#[tokio::test]
async fn repeated_kills_restart_duplicate_and_leak_no_container() {
    let seed = Chance::seed();
    let kills = std::env::var("CORACLE_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let engine = Engine::connect().await;
    let (repository, tag) = ("coracle/busybox", format!("kill-nine-{}", std::process::id()));
    let options = TagImageOptionsBuilder::new().repo(repository).tag(&tag).build();
    engine.docker().tag_image(IMAGE, Some(options)).await.unwrap();
    let other_image = format!("{repository}:{tag}");

    let nodes = NODES.iter().enumerate().map(|(n, sorts)| {
        let chance = Chance::new(seed.wrapping_mul(NODES.len() as u64).wrapping_add(n as u64));
        let image = other_image.clone();
        async move {
            let mut node = Node::new(n, sorts, image, chance).await;
            while node.kills < kills.div_ceil(NODES.len()) {
                node.round().await;
            }
            node.end().await;
        }
    });
    // The nodes are independent: a failure shows only the history of its own node.
    join_all(nodes).await;
    engine.docker().remove_image(&other_image, None::<RemoveImageOptions>, None).await.unwrap();
}

/// The longest time before a kill: long enough for a pod to start or end.
const LONGEST: Duration = Duration::from_millis(700);

/// The time between consecutive kills is shorter: the kubelet is still adopting its containers.
const SHORTEST: Duration = Duration::from_millis(120);
