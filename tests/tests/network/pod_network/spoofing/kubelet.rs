//! The anti-spoofing rules of a running kubelet, over changes by other programs, kills and the end of its pods.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tests::World;
use tests::host::run;
use tests::manifest::sleeper;
use tests::network::bridge;

use super::cases::{Others, forged, names, own};
use super::wire::Wire;
use crate::pod_network::machine::{gateway, has_no_cables, node};

/// Opens the `eth0` of a running pod.
async fn open(world: &World, pod: &str) -> Wire {
    let address = world.wait_ready(pod).await.ip().to_owned();
    let sandbox = world.container(pod, "POD").await.unwrap();
    let state = world.engine.inspect(&sandbox.id).await.unwrap().state.unwrap();
    let network = File::open(format!("/proc/{}/ns/net", state.pid.unwrap())).unwrap();
    // The thread ends in that network namespace.
    let opened = thread::spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        Wire::open(&address)
    });
    opened.join().unwrap()
}

fn tables(world: &World) -> String {
    let name = bridge(&world.node).unwrap();
    run(&format!("nft list tables bridge | grep {name} || true"))
}

#[tokio::test]
async fn pod_may_send_only_from_its_own_addresses() {
    let mut world = node("spoof").await;
    assert_eq!(tables(&world), "", "no pod, no table");
    for name in ["a", "b"] {
        world.write(&format!("{name}.yaml"), &sleeper(name));
    }
    let (a, b) = (open(&world, "a").await, open(&world, "b").await);
    let gateway = gateway(&world);
    let others = Others { gateway: &gateway, victim: &b, v6: None };
    let (forged, own) = (forged(&a, &others), own(&a, &others));
    let assert_guarded = || {
        assert_eq!(a.try_all(&b, &forged), [].into());
        assert_eq!(a.try_all(&b, &own), names(&own));
    };
    assert_guarded();

    // Another program deletes the rules.
    let delete = format!("nft delete table bridge {}", bridge(&world.node).unwrap());
    run(&delete);
    let is_there =
        async || if tables(&world).is_empty() { Err("there is no table".to_owned()) } else { Ok(()) };
    world.wait_for("the rules to come back", is_there).await;
    assert_guarded();
    let expected_text = "anti-spoofing rules was missing or changed";
    let is_reported = async || {
        let events = world.get("events").await?;
        let mut messages = events.iter().filter_map(|event| event["message"].as_str());
        if messages.any(|message| message.contains(expected_text)) {
            Ok(())
        } else {
            Err("no event".to_owned())
        }
    };
    world.wait_for("an event", is_reported).await;

    // A killed kubelet leaves the rules. The next one sets them for pods that a version without such rules has started.
    world.kill();
    assert_guarded();
    run(&delete);
    assert_eq!(a.try_all(&b, &forged), names(&forged));
    world.start().await;
    world.wait_ready("a").await;
    assert_guarded();

    // A network namespace lives as long as a socket of it.
    drop((a, b));
    for name in ["a", "b"] {
        world.remove(&format!("{name}.yaml"));
        world.wait_gone(name).await;
    }
    let is_gone = async || match tables(&world) {
        none if none.is_empty() => Ok(()),
        left => Err(left),
    };
    world.wait_for("the table to go with the last pod", is_gone).await;
    let name = bridge(&world.node).unwrap();
    has_no_cables(&world).await;
    world.stop().await;
    assert_eq!(run(&format!("nft list tables | grep {name} || true")), "");
}
