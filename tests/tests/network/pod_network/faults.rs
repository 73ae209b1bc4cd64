//! The kubelet repairs parts of the network that another program removes.

use std::fs;

use bollard::query_parameters::RestartContainerOptionsBuilder;
use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::network::{bridge, cables, records, routes};
use tests::{DEADLINE, Pod, PrivateEngine, World, free_port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pod_network::machine::{change, gateway, has_no_cables, node};

/// Waits until the node reaches a pod: its address answers.
async fn is_reached(world: &World, ip: &str) {
    world
        .wait_for("the pod to answer", async || {
            // No process listens on this port: the pod's kernel itself refuses the connection.
            match TcpStream::connect((ip, 9)).await {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
}

/// Waits for an event of the node, which the kubelet also logs.
async fn node_event(world: &World, text: &str) {
    world
        .wait_for("the node's event", async || {
            let events = world.get("events").await?;
            let is_logged = |event: &serde_json::Value| {
                event["message"].as_str().is_some_and(|message| message.contains(text))
            };
            if events.iter().any(is_logged) { Ok(()) } else { Err(format!("none says {text}")) }
        })
        .await;
    let log = fs::read_to_string(world.log_path()).unwrap();
    assert!(log.contains(text), "{text}: {log}");
}

#[tokio::test]
async fn a_removed_bridge_or_veth_is_restored() {
    let world = node("mend").await;
    world.write("a.yaml", &sleeper("a"));
    world.write("b.yaml", &sleeper("b"));
    let (a, b) = (world.wait_ready("a").await, world.wait_ready("b").await);
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    let name = bridge(&world.node).unwrap();
    change(&["link", "delete", &name]);
    node_event(&world, &format!("the bridge {name} was missing")).await;
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    change(&["link", "set", &name, "down"]);
    node_event(&world, &format!("the bridge {name} was down")).await;
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    let gateway = gateway(&world);
    change(&["addr", "delete", &format!("{gateway}/24"), "dev", &name]);
    node_event(&world, &format!("the bridge {name} had lost its address {gateway}/24")).await;
    let cable = cables(&world.node).remove(0);
    change(&["link", "set", &cable, "nomaster"]);
    node_event(&world, &format!("{cable} was down or not on {name}: pod default/")).await;
    let cable = cables(&world.node).remove(1);
    change(&["link", "delete", &cable]);
    node_event(&world, &format!("{cable} was missing")).await;
    for pod in [&a, &b] {
        is_reached(&world, pod.ip()).await;
    }
    for (name, before) in [("a", &a), ("b", &b)] {
        let now = world.wait_ready(name).await;
        assert_eq!((before.ip(), before.container_id("main")), (now.ip(), now.container_id("main")));
    }
}

#[tokio::test]
async fn a_connection_survives_the_recreation_of_the_bridge() {
    let world = node("lives").await;
    let script = format!("nc -l -p 7000 -e cat & {FOREVER}");
    world.write("echo.yaml", &pod("echo", &format!("containers:\n- {}", container("main", &script, ""))));
    let echo = world.wait_ready("echo").await;
    let connect = async || TcpStream::connect((echo.ip(), 7000)).await.map_err(|error| error.to_string());
    let mut stream = world.wait_for("the pod to listen", connect).await;
    let mut message = [0; 5];
    for word in [b"first", b"later"] {
        stream.write_all(word).await.unwrap();
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut message)).await.unwrap().unwrap();
        assert_eq!(&message, word);
        let name = bridge(&world.node).unwrap();
        change(&["link", "delete", &name]);
        node_event(&world, "was missing").await;
        let is_there = async || bridge(&world.node).map(drop).ok_or_else(|| format!("there is no {name}"));
        world.wait_for("the bridge to be there again", is_there).await;
    }
}

#[tokio::test]
async fn a_sandbox_restarted_by_another_program_is_recreated_with_its_pod() {
    let world = node("restarted").await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    let sandbox = world.container("a", "POD").await.unwrap();
    let at_once = RestartContainerOptionsBuilder::new().t(0).build();
    world.engine.docker().restart_container(&sandbox.id, Some(at_once)).await.unwrap();
    let restarted = |pod: &Pod| pod.is_ready() && pod.container_id("main") != before.container_id("main");
    let after = world.wait_for_pod("a", "to be created again", restarted).await;
    is_reached(&world, after.ip()).await;
}

#[tokio::test]
async fn host_port_used_by_another_program_is_not_forwarded() {
    let world = node("has").await;
    let port = free_port();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port.number)).unwrap();
    let ports = format!("ports: [{{containerPort: 80, hostPort: {}}}]", port.number);
    world.write("a.yaml", &pod("a", &format!("containers:\n- {}", container("main", FOREVER, &ports))));
    world
        .wait_for_event("a", &format!("another program on the host already uses port {}/tcp", port.number))
        .await;
    drop(listener);
    world.wait_ready("a").await;
}

#[tokio::test]
async fn running_pods_keep_their_network_when_the_flag_changes() {
    let mut world = node("keeps").await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    world.stop().await;
    world.set_flags(["--pod-network", "docker"]);
    world.start().await;
    world.write("b.yaml", &sleeper("b"));
    let other = world.wait_ready("b").await;
    let after = world.wait_ready("a").await;
    assert_eq!((before.ip(), before.container_id("main")), (after.ip(), after.container_id("main")));
    assert_eq!(cables(&world.node).len(), 1, "the engine gave {} its address", other.ip());
    is_reached(&world, after.ip()).await;
    world.remove("a.yaml");
    world.wait_gone("a").await;
    world.remove("b.yaml");
    world.wait_gone("b").await;
    has_no_cables(&world).await;
    world.stop().await;
    assert_eq!(bridge(&world.node), None);
}

#[tokio::test]
async fn switch_to_the_docker_network_removes_state_of_a_killed_kubelet() {
    let mut world = node("leaves").await;
    world.write("a.yaml", &sleeper("a"));
    world.wait_ready("a").await;
    world.remove("a.yaml");
    world.wait_gone("a").await;
    let given_back = async || match records(&world.root_dir()) {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    };
    world.wait_for("its addresses to be given back", given_back).await;
    has_no_cables(&world).await;
    world.kill();
    assert!(bridge(&world.node).is_some());
    world.set_flags(["--pod-network", "docker"]);
    world.start().await;
    assert_eq!((bridge(&world.node), routes(&world.node)), (None, vec![]));
}

#[tokio::test]
async fn switch_to_the_docker_network_removes_native_state_with_its_last_pod() {
    let mut world = node("last").await;
    world.write("a.yaml", &sleeper("a"));
    world.wait_ready("a").await;
    world.kill();
    world.remove("a.yaml");
    world.engine.remove_all(&world.node).await;
    assert_eq!(records(&world.root_dir()), 1);
    world.set_flags(["--pod-network", "docker"]);
    world.start().await;
    let gone = async || bridge(&world.node).map_or(Ok(()), |name| Err(format!("there is {name}")));
    world.wait_for("the bridge to go", gone).await;
    // The rest of the node continues to work.
    world.write("b.yaml", &sleeper("b"));
    world.wait_ready("b").await;
    world.stop().await;
}

#[tokio::test]
async fn a_bridge_with_unrecorded_pods_is_kept() {
    let mut world = node("unwritten").await;
    let stubborn = container("main", "trap '' TERM; echo up; sleep 1000000 & while true; do wait; done", "");
    let manifest = pod("a", &format!("containers:\n- {stubborn}"));
    world.write("a.yaml", &manifest.replace("GracePeriodSeconds: 2", "GracePeriodSeconds: 300"));
    world.wait_for_log("a", "main", "up").await;
    world.kill();
    // The termination messages of a pod are a separate mount.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| std::path::Path::new(point).starts_with(world.root_dir())) {
        assert!(std::process::Command::new("umount").args(["-l", point]).status().unwrap().success());
    }
    for room in ["network", "pods"] {
        fs::remove_dir_all(world.root_dir().join(room)).unwrap();
    }
    world.remove("a.yaml");
    world.start().await;
    // The pod is shown as terminating until it has stopped.
    let shown = async || {
        let shown = world.kubelet(&["get", "pods"]).await.stdout;
        let line = shown.lines().find(|line| line.starts_with(&world.pod_name("a"))).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(1..3) == Some(&["1/1", "Terminating"]) { Ok(()) } else { Err(shown) }
    };
    world.wait_for("the pod to be shown as it is", shown).await;
    assert_eq!(world.pod("a").await.unwrap().phase(), "Running");
    world.stop().await;
    assert!(bridge(&world.node).is_some() && cables(&world.node).len() == 1);
    assert!(world.log_tail().contains("so it is kept"), "{}", world.log_tail());
    let main = world.container("a", "main").await.unwrap();
    world.engine.docker().kill_container(&main.id, None).await.unwrap();
    world.start().await;
    world.wait_gone("a").await;
    has_no_cables(&world).await;
    world.stop().await;
    assert_eq!(bridge(&world.node), None);
}

#[tokio::test]
async fn docker_network_is_used_if_the_native_network_is_impossible() {
    // The engine has its own network namespace, as a rootless engine does.
    let engine = PrivateEngine::running(false).await;
    let mut world = World::on(engine.engine(), "elsewhere").with_flags(["--pod-network", "native"]);
    world.launch();
    let why = "the engine is in another network namespace than the kubelet";
    let ends = async || {
        let log = world.log_tail();
        if log.contains(why) && log.contains("--pod-network docker") { Ok(()) } else { Err(log) }
    };
    world.wait_for("the kubelet to say why it ends", ends).await;
    world.kill();
    world.set_flags::<&str>([]);
    world.start().await;
    node_event(
        &world,
        &format!("the engine provides the pod network, because the native one is not available: {why}"),
    )
    .await;
    world.write("a.yaml", &sleeper("a"));
    let ip = world.wait_ready("a").await.ip().to_owned();
    assert!(ip.starts_with("172.31.250."), "{ip} is not of the engine's bridge");
    assert_eq!(bridge(&world.node), None);
}
