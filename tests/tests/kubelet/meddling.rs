//! Changes by other clients of the engine: changes to a pod's containers are repaired, foreign containers are not touched.

use std::collections::HashMap;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptions, RemoveContainerOptionsBuilder,
    RenameContainerOptions, StartContainerOptions, StopContainerOptionsBuilder,
};
use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{Container, Engine, History, IMAGE, Pod, World};

async fn remove(engine: &Engine, id: &str) {
    let options: RemoveContainerOptions = RemoveContainerOptionsBuilder::new().force(true).build();
    engine.docker().remove_container(id, Some(options)).await.unwrap();
}

/// Two containers, to distinguish a change of one container from a change of the whole pod.
async fn two(world: &World) -> Pod {
    let spec =
        format!("containers:\n- {}\n- {}", container("main", FOREVER, ""), container("second", FOREVER, ""));
    world.write("a.yaml", &pod("a", &spec));
    world.wait_ready("a").await
}

/// Waits until the pod is Ready again with another `main`, which counts as one restart.
async fn main_again(world: &World, before: &Pod) -> Pod {
    let again = |pod: &Pod| {
        pod.is_ready() && pod.restarts("main") == 1 && pod.container_id("main") != before.container_id("main")
    };
    world.wait_for_pod("a", "to be restarted once", again).await
}

#[tokio::test]
async fn removed_container_is_recreated_alone() {
    let world = World::running("rm").await;
    let history = History::of(&world.engine, &world.node).await;
    let before = two(&world).await;
    remove(&world.engine, before.container_id("main")).await;
    let after = main_again(&world, &before).await;
    assert_eq!(after.container_id("second"), before.container_id("second"));
    assert_eq!(after.ip(), before.ip());
    assert_eq!(history.broken(), Vec::<String>::new());
}

#[tokio::test]
async fn stopped_container_is_restarted_alone() {
    let world = World::running("stop").await;
    let before = two(&world).await;
    let options = StopContainerOptionsBuilder::new().t(60).build();
    world.engine.docker().stop_container(before.container_id("main"), Some(options)).await.unwrap();
    let after = main_again(&world, &before).await;
    assert_eq!(after.container("main")["lastState"]["terminated"]["exitCode"], 0);
    assert_eq!(after.container_id("second"), before.container_id("second"));
}

#[tokio::test]
async fn a_container_started_by_another_program_is_not_duplicated() {
    let world = World::running("restart").await;
    let history = History::of(&world.engine, &world.node).await;
    let before = two(&world).await;
    world.engine.docker().restart_container(before.container_id("main"), None).await.unwrap();
    // Either of the two may win; in the end exactly one container exists.
    let one = async || {
        let mains = world.containers().await;
        let is_main = |c: &&Container| c.pod == world.pod_name("a") && c.name == "main" && c.is_running();
        let up = mains.iter().filter(is_main).count();
        let ready = world.pod("a").await?.is_ready();
        if up == 1 && ready { Ok(()) } else { Err(format!("{up} run, ready {ready}")) }
    };
    world.wait_for("one main", one).await;
    world.write("later.yaml", &sleeper("later"));
    world.wait_ready("later").await;
    world.wait_for("one main beside the later pod", one).await;
    assert_eq!(history.starts(&world.pod_name("a"), "second").len(), 1);
}

#[tokio::test]
async fn removed_sandbox_is_recreated_with_all_containers() {
    let world = World::running("rmpod").await;
    let history = History::of(&world.engine, &world.node).await;
    let before = two(&world).await;
    let sandbox = world.container("a", "POD").await.unwrap();
    remove(&world.engine, &sandbox.id).await;
    let after = main_again(&world, &before).await;
    assert_eq!(after.restarts("second"), 1);
    let new = world.container("a", "POD").await.unwrap();
    assert_ne!(new.id, sandbox.id);
    let running = world.containers().await.iter().filter(|c| c.is_running()).count();
    assert_eq!(running, 3);
    assert_eq!(history.broken(), Vec::<String>::new());
}

#[tokio::test]
async fn stopped_sandbox_is_recreated_with_all_containers() {
    let world = World::running("stoppod").await;
    let before = two(&world).await;
    let sandbox = world.container("a", "POD").await.unwrap();
    world.engine.docker().kill_container(&sandbox.id, None).await.unwrap();
    let after = main_again(&world, &before).await;
    assert_eq!(after.restarts("second"), 1);
    let sandboxes = world.containers().await.into_iter().filter(|c| c.is_sandbox()).collect::<Vec<_>>();
    assert!(
        sandboxes.len() == 1 && sandboxes[0].is_running() && sandboxes[0].id != sandbox.id,
        "{sandboxes:?}"
    );
}

#[tokio::test]
async fn paused_container_stays_paused() {
    let mut world = World::running("pause").await;
    let before = two(&world).await;
    let id = before.container_id("main").to_owned();
    world.engine.docker().pause_container(&id).await.unwrap();
    world.kill();
    world.start().await;
    world.write("later.yaml", &sleeper("later"));
    world.wait_ready("later").await;
    assert_eq!(world.container("a", "main").await.unwrap().state, "paused");
    world.engine.docker().unpause_container(&id).await.unwrap();
    let after = world.wait_ready("a").await;
    assert_eq!((after.container_id("main"), after.restarts("main")), (id.as_str(), 0));
}

#[tokio::test]
async fn paused_pod_is_deleted_with_its_manifest() {
    let world = World::running("pausegone").await;
    let before = two(&world).await;
    world.engine.docker().pause_container(before.container_id("main")).await.unwrap();
    world.remove("a.yaml");
    world.wait_gone("a").await;
}

#[tokio::test]
async fn renamed_container_still_belongs_to_its_pod() {
    let mut world = World::running("rename").await;
    let before = two(&world).await;
    let id = before.container_id("main").to_owned();
    let name = format!("{}-mine", world.node);
    let options = RenameContainerOptions { name: name.clone() };
    world.engine.docker().rename_container(&id, options).await.unwrap();
    world.kill();
    world.start().await;
    world.write("later.yaml", &sleeper("later"));
    world.wait_ready("later").await;
    assert_eq!(world.wait_ready("a").await.container_id("main"), id);
    assert_eq!(world.container("a", "main").await.unwrap().engine_name, name);
    world.remove("a.yaml");
    world.wait_gone("a").await;
}

#[tokio::test]
async fn foreign_container_with_a_kubelet_name_is_not_touched() {
    let world = World::running("stranger").await;
    let before = two(&world).await;
    // The name that the next `main` container needs.
    let ours = world.container("a", "main").await.unwrap().engine_name;
    let wanted = format!("{}1", ours.strip_suffix('0').unwrap());
    let body = ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(["sh", "-c", FOREVER].map(str::to_owned).to_vec()),
        labels: Some(HashMap::from([("owner".to_owned(), "somebody".to_owned())])),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::new().name(&wanted).build();
    let docker = world.engine.docker();
    let foreign = docker.create_container(Some(options), body).await.unwrap().id;
    let guard = Guard { engine: world.engine.clone(), id: foreign.clone() };
    docker.start_container(&foreign, None::<StartContainerOptions>).await.unwrap();

    remove(&world.engine, before.container_id("main")).await;
    world.wait_for_event("a", "already in use").await;
    let seen = world.engine.inspect(&foreign).await.unwrap();
    assert!(seen.state.unwrap().running.unwrap(), "the stranger runs on");
    guard.remove().await;
    main_again(&world, &before).await;
}

/// A container that no kubelet manages, so that the test must remove it.
struct Guard {
    engine: Engine,
    id: String,
}

impl Guard {
    async fn remove(self) {
        remove(&self.engine, &self.id).await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (engine, id) = (self.engine.clone(), self.id.clone());
        let removed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let options = RemoveContainerOptionsBuilder::new().force(true).build();
                let _ = engine.again().docker().remove_container(&id, Some(options)).await;
            });
        });
        let _ = removed.join();
    }
}

#[tokio::test]
async fn two_nodes_on_one_engine_do_not_interfere() {
    let one = World::running("one").await;
    let mut two = World::running("two").await;
    for world in [&one, &two] {
        world.write("same.yaml", &sleeper("same"));
        world.write("job.yaml", &scripted("job", "Never", "exit 0"));
    }
    for world in [&one, &two] {
        world.wait_ready("same").await;
        world.wait_done("job").await;
    }
    let others = one.containers().await;
    two.kill();
    two.remove("same.yaml");
    two.remove("job.yaml");
    two.start().await;
    two.wait_gone("same").await;
    two.wait_gone("job").await;
    assert_eq!(one.containers().await, others);
}
