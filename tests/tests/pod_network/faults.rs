//! Whoever takes a part of the network away finds it made good.

use tests::World;
use tests::manifest::sleeper;
use tests::network::{bridge, cables};

use crate::machine::{change, node};

/// Whether the node reaches a pod: its address answers on the wire.
async fn is_reached(world: &World, ip: &str) {
    world
        .wait_for("the pod to answer", async || {
            // A port that nobody listens on: the refusal is the pod's own word.
            match tokio::net::TcpStream::connect((ip, 9)).await {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
}

async fn node_event(world: &World, text: &str) {
    world
        .wait_for("the node's event", async || {
            let events = world.get("events").await?;
            let told =
                |event: &serde_json::Value| event["message"].as_str().is_some_and(|said| said.contains(text));
            if events.iter().any(told) { Ok(()) } else { Err(format!("none says {text}")) }
        })
        .await;
}

#[tokio::test]
async fn a_bridge_or_a_cable_that_somebody_takes_away_is_there_again() {
    let world = node("mend").await;
    world.write("a.yaml", &sleeper("a"));
    world.write("b.yaml", &sleeper("b"));
    let (a, b) = (world.wait_ready("a").await, world.wait_ready("b").await);
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    let name = bridge(&world.node).unwrap();
    change(&["link", "delete", &name]);
    node_event(&world, &format!("the bridge {name} was gone")).await;
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    let cable = cables(&world.node).remove(0);
    change(&["link", "set", &cable, "nomaster"]);
    node_event(&world, &format!("{cable} was off or not on {name}")).await;
    let cable = cables(&world.node).remove(1);
    change(&["link", "delete", &cable]);
    node_event(&world, &format!("{cable} was gone")).await;
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    for (name, before) in [("a", &a), ("b", &b)] {
        let now = world.wait_ready(name).await;
        assert_eq!((before.ip(), before.container_id("main")), (now.ip(), now.container_id("main")));
    }
}
