//! The engine stops, comes back, hangs or is not available yet: no container is duplicated, and all that ran run again.
//!
//! Each test has its own engine in its own network namespace, so the probes here run commands instead of network requests.

use std::path::Path;
use std::time::Duration;

use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{Engine, History, Pod, PrivateEngine, Wire, World};

/// The kubelet checks the engine every 10 s, and considers it hung after 15 s without an answer.
const HANG: Duration = Duration::from_secs(60);

const WEB: &str = "web";

/// A pod of several containers, one that does not restart and one that has ended.
async fn several(world: &World) -> Vec<Pod> {
    let probe = "readinessProbe: {exec: {command: [test, -e, /tmp]}, periodSeconds: 1}";
    let web = format!(
        "initContainers:\n- {}\n- {}\ncontainers:\n- {}\n- {}",
        container("first", "exit 0", ""),
        container("side", FOREVER, "restartPolicy: Always"),
        container("main", FOREVER, probe),
        container("second", FOREVER, "")
    );
    world.write("web.yaml", &pod(WEB, &web));
    world.write("once.yaml", &scripted("once", "Never", FOREVER));
    world.write("job.yaml", &scripted("job", "OnFailure", "exit 0"));
    let job = world.wait_done("job").await;
    vec![world.wait_ready(WEB).await, world.wait_ready("once").await, job]
}

async fn answers(world: &World) {
    let answer = world.kubelet(&["get", "pods"]).await;
    assert!(answer.code == 0 && answer.stdout.contains(WEB), "{answer:?}");
}

/// Waits until the node's Ready condition has this status, with this text.
async fn node_is(world: &World, status: &str, text: &str) {
    let look = async || {
        let nodes = world.get("nodes").await?;
        let Some(node) = nodes.first() else { return Err("there is no node".to_owned()) };
        let conditions = node["status"]["conditions"].as_array();
        let ready =
            conditions.into_iter().flatten().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
        if ready["status"] == status && ready["message"].to_string().contains(text) {
            Ok(())
        } else {
            Err(format!("its condition is {ready}"))
        }
    };
    world.wait_within(HANG, &format!("the node to be Ready={status} with {text:?}"), look).await;
}

/// Waits until all pods run again, in new sandboxes and with counted restarts, after the engine stopped them.
async fn all_restarted(world: &World, before: &[Pod], history: &History) {
    let again =
        |pod: &Pod| pod.is_ready() && ["main", "second", "side"].iter().all(|name| pod.restarts(name) == 1);
    let web = world.wait_for_pod(WEB, "to run again", again).await;
    assert_ne!(web.container_id("main"), before[0].container_id("main"));
    let once = world
        .wait_for_pod("once", "to have ended", |pod| pod.phase() == "Failed" || pod.phase() == "Succeeded")
        .await;
    assert_eq!((once.restarts("main"), once.container_id("main")), (0, before[1].container_id("main")));
    let job = world.pod("job").await.unwrap();
    assert_eq!((job.phase(), job.container_id("main")), ("Succeeded", before[2].container_id("main")));
    let running = world.containers().await.into_iter().filter(|c| c.is_running()).count();
    assert_eq!(running, 4, "{:?}", world.containers().await);
    assert_eq!(history.broken(), Vec::<String>::new());
}

#[tokio::test]
async fn containers_restart_after_an_engine_restart() {
    let mut engine = PrivateEngine::running(false).await;
    let mut world = World::on(engine.engine(), "restart");
    world.start().await;
    let before = several(&world).await;
    engine.stop().await;
    answers(&world).await;
    engine.start().await;
    let history = History::of(&world.engine, &world.node).await;
    all_restarted(&world, &before, &history).await;
    node_is(&world, "True", "").await;
}

#[tokio::test]
async fn containers_restart_after_an_engine_kill() {
    let mut engine = PrivateEngine::running(false).await;
    let mut world = World::on(engine.engine(), "killed");
    world.start().await;
    let before = several(&world).await;
    engine.kill();
    node_is(&world, "False", "does not answer").await;
    answers(&world).await;
    engine.start().await;
    let history = History::of(&world.engine, &world.node).await;
    all_restarted(&world, &before, &history).await;
}

#[tokio::test]
async fn engine_restart_with_live_restore_keeps_containers() {
    let mut engine = PrivateEngine::running(true).await;
    let mut world = World::on(engine.engine(), "live");
    world.start().await;
    let before = several(&world).await;
    let containers = world.containers().await;
    for kill in [false, true] {
        if kill {
            engine.kill();
        } else {
            engine.stop().await;
        }
        node_is(&world, "False", "does not answer").await;
        let pod = world.pod(WEB).await.unwrap();
        assert!(pod.is_ready() && pod.restarts("main") == 0, "{}", pod.0["status"]);
        engine.start().await;
        node_is(&world, "True", "").await;
        world.write("later.yaml", &sleeper("later"));
        world.wait_ready("later").await;
        world.remove("later.yaml");
        world.wait_gone("later").await;
        assert_eq!(world.containers().await, containers);
    }
    let after = world.wait_ready(WEB).await;
    assert_eq!(after.container_id("main"), before[0].container_id("main"));
}

#[tokio::test]
async fn hanging_engine_stops_no_pod() {
    let engine = PrivateEngine::running(false).await;
    let mut world = World::on(engine.engine(), "hang");
    world.start().await;
    let before = several(&world).await;
    let containers = world.containers().await;
    let history = History::of(&world.engine, &world.node).await;
    let mut pids = Vec::new();
    for container in containers.iter().filter(|c| c.is_running()) {
        pids.push(world.engine.inspect(&container.id).await.unwrap().state.unwrap().pid.unwrap());
    }
    engine.freeze();
    answers(&world).await;
    world.write("b.yaml", &sleeper("b"));
    world.write(
        "web.yaml",
        &std::fs::read_to_string(world.manifests().join("web.yaml"))
            .unwrap()
            .replace("name: web", "name: web\n  labels: {new: 'yes'}"),
    );
    node_is(&world, "False", "does not answer").await;
    answers(&world).await;
    for name in [WEB, "once"] {
        let pod = world.pod(name).await.unwrap();
        assert!(pod.is_ready(), "an engine that hangs is no news about a pod: {}", pod.0["status"]);
    }
    // A kubelet that starts meanwhile knows its pods from the state that the last one stored.
    world.kill();
    world.start().await;
    world.wait_for_pod(WEB, "to be shown", |pod| pod.text("/status/message").contains("engine")).await;
    for pid in pids {
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "process {pid} of a container is gone");
    }
    engine.thaw();
    node_is(&world, "True", "").await;
    world.wait_ready("b").await;
    let relabelled = |pod: &Pod| pod.is_ready() && pod.text("/metadata/labels/new") == "yes";
    let after = world.wait_for_pod(WEB, "to be Ready with its new label", relabelled).await;
    assert_eq!(after.container_id("main"), before[0].container_id("main"));
    let mut now = world.containers().await;
    now.retain(|c| c.pod != world.pod_name("b"));
    assert_eq!(now, containers);
    assert_eq!(history.broken(), Vec::<String>::new());
}

#[tokio::test]
async fn kubelet_waits_for_a_missing_engine() {
    let mut engine = PrivateEngine::running(false).await;
    let mut world = World::on(engine.engine(), "absent");
    engine.stop().await;
    world.write("a.yaml", &sleeper("a"));
    world.start().await;
    node_is(&world, "False", "does not answer").await;
    let pod =
        world.wait_for_pod("a", "to be shown", |pod| pod.text("/status/message").contains("engine")).await;
    assert!(!pod.is_ready());
    assert!(world.log_tail().contains("does not answer"), "{}", world.log_tail());
    engine.start().await;
    world.wait_ready("a").await;
    node_is(&world, "True", "").await;
}

#[tokio::test]
async fn hanging_inspect_blocks_only_its_pod() {
    let shared = Engine::connect().await;
    let mut world = World::new("inspect").await;
    let socket = world.path("engine.sock");
    let wire = Wire::to(shared.address(), &socket);
    world.engine_at(wire.socket());
    world.start().await;
    world.write("a.yaml", &sleeper("a"));
    world.write("b.yaml", &sleeper("b"));
    let a = world.wait_ready("a").await;
    let b = world.wait_ready("b").await;
    let containers = world.containers().await;
    let hanging = a.container_id("main").to_owned();
    wire.hang(&format!("/containers/{hanging}/json"));

    // The new kubelet must reconcile every pod; only one pod waits for that.
    world.kill();
    world.start().await;
    world
        .wait_for("the inspect to hang", async || {
            if wire.hung().is_empty() { Err("it was not asked for yet".to_owned()) } else { Ok(()) }
        })
        .await;
    assert_eq!(world.wait_ready("b").await.container_id("main"), b.container_id("main"));
    world.write("c.yaml", &sleeper("c"));
    world.wait_ready("c").await;
    node_is(&world, "True", "").await;
    world.engine.docker().kill_container(b.container_id("main"), None).await.unwrap();
    world.wait_for_pod("b", "to be restarted", |pod| pod.is_ready() && pod.restarts("main") == 1).await;
    world.remove("c.yaml");
    world.wait_gone("c").await;
    wire.mend();
    let after = world.wait_ready("a").await;
    assert_eq!((after.container_id("main"), after.restarts("main")), (hanging.as_str(), 0));
    let here = world.containers().await;
    for container in containers.iter().filter(|c| c.pod == world.pod_name("a")) {
        assert!(here.contains(container), "{container:?} was left alone");
    }
}
