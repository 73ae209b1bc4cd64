//! A kubelet that is killed, stopped or replaced does not touch its containers and adopts them when it is back.

use std::fs;
use std::path::Path;

use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{World, free_port};

#[tokio::test]
async fn kubelet_sigkill_restarts_no_container() {
    let mut world = World::running("kill9").await;
    world.write("a.yaml", &sleeper("a"));
    world.write("b.yaml", &sleeper("b"));
    world.wait_ready("a").await;
    world.wait_ready("b").await;
    let before = world.containers().await;

    world.kill();
    assert_eq!(world.containers().await, before, "killing the kubelet touches no container");
    world.start().await;
    world.wait_ready("a").await;
    world.wait_ready("b").await;
    // A new pod shows that the new kubelet works, and could have changed the old pods by now.
    world.write("c.yaml", &sleeper("c"));
    world.wait_ready("c").await;
    let mut after = world.containers().await;
    after.retain(|container| container.pod != world.pod_name("c"));
    assert_eq!(after, before);
    assert_eq!(world.pod("a").await.unwrap().restarts("main"), 0);
}

#[tokio::test]
async fn sigterm_leaves_containers_running_and_exits_with_zero() {
    let mut world = World::running("term").await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    world.stop().await;
    assert!(world.container("a", "main").await.unwrap().is_running());
    world.start().await;
    let after = world.wait_ready("a").await;
    assert_eq!(after.container_id("main"), before.container_id("main"));
    assert_eq!(after.text("/status/startTime"), before.text("/status/startTime"));
}

#[tokio::test]
async fn kubelet_reconciles_changes_made_during_its_absence() {
    let mut world = World::running("meanwhile").await;
    for name in ["gone", "dies", "edited", "stays"] {
        world.write(&format!("{name}.yaml"), &sleeper(name));
    }
    for name in ["gone", "dies", "edited", "stays"] {
        world.wait_ready(name).await;
    }
    let stays = world.container("stays", "main").await.unwrap();
    let dies = world.container("dies", "main").await.unwrap();

    world.kill();
    world.remove("gone.yaml");
    world.write("edited.yaml", &scripted("edited", "Always", &format!("echo edited; {FOREVER}")));
    world.engine.docker().kill_container(&dies.id, None).await.unwrap();
    world.start().await;

    world.wait_gone("gone").await;
    world.wait_for_log("edited", "main", "edited").await;
    let dies = world.wait_for_pod("dies", "to be restarted once", |pod| pod.restarts("main") == 1).await;
    assert_eq!(dies.container("main")["lastState"]["terminated"]["exitCode"], 137);
    world.wait_ready("dies").await;
    assert_eq!(world.container("stays", "main").await.unwrap(), stays);
}

#[tokio::test]
async fn restart_counts_survive_a_kubelet_restart() {
    let mut world = World::running("counts").await;
    world.write("a.yaml", &sleeper("a"));
    world.wait_ready("a").await;
    let id = world.container("a", "main").await.unwrap().id;
    world.engine.docker().kill_container(&id, None).await.unwrap();
    world.wait_for_pod("a", "one restart", |pod| pod.restarts("main") == 1 && pod.is_ready()).await;
    world.kill();
    world.start().await;
    assert_eq!(world.wait_ready("a").await.restarts("main"), 1);
}

#[tokio::test]
async fn unlabelled_containers_are_not_touched() {
    let mut world = World::running("nobody").await;
    world.write("a.yaml", &sleeper("a"));
    world.wait_ready("a").await;
    let other = World::running("other").await;
    other.write("a.yaml", &sleeper("a"));
    other.wait_ready("a").await;
    let before = other.containers().await;
    world.kill();
    world.remove("a.yaml");
    world.start().await;
    world.wait_gone("a").await;
    assert_eq!(other.containers().await, before);
}

#[tokio::test]
async fn second_kubelet_with_the_same_name_is_rejected() {
    let mut world = World::running("rival").await;
    world.write("a.yaml", &sleeper("a"));
    world.wait_ready("a").await;
    let before = world.containers().await;
    let refused = world.rival().await;
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let holder = format!("process {} with --root-dir {}", world.kubelet_pid(), world.root_dir().display());
    for word in [&world.node, &holder, "--hostname-override"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    let first = refused.stderr.lines().next().unwrap();
    assert!(first.contains("no pod source is configured"), "it has no source: {first}");
    assert_eq!(world.containers().await, before);
    // A kill releases the lock on the node name at once.
    world.kill();
    world.start().await;
    world.wait_ready("a").await;
}

#[tokio::test]
async fn renamed_node_waits_until_the_pods_of_the_old_name_ended() {
    let mut world = World::running("old-name").await;
    world.write("a.yaml", &sleeper("a"));
    let pod = world.wait_ready("a").await;
    world.stop().await;
    let before = world.containers().await;
    let (old, new) = (world.node.clone(), format!("{}-anew", world.node));
    let directory = world.root_dir().join("pods").join(pod.uid());
    let refused = async |world: &World, why: &str| {
        let refused = world.renamed(&new).await;
        let last = refused.stderr.lines().last().unwrap_or_default().to_owned();
        let remedy = format!("--hostname-override {old}");
        let has_all_words =
            [&old, &new, why, &remedy, "another --root-dir"].iter().all(|word| last.contains(*word));
        assert!(refused.code == 1 && has_all_words, "{why}: {}", refused.stderr);
        assert!(directory.join("record.json").exists());
    };
    refused(&world, "1 of its pods still runs").await;
    // A root directory from a version that did not store the node name.
    let kept = world.root_dir().join("node");
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{old}\n"));
    fs::remove_file(&kept).unwrap();
    refused(&world, "1 of its pods still runs").await;
    assert_eq!(world.containers().await, before);

    // While no engine answers, the kubelet starts with the old name, and does not start with the new one.
    let engine = world.engine.address().trim_start_matches("unix://").to_owned();
    world.engine_at(&world.path("nobody.sock"));
    refused(&world, "it is unknown whether any of its pods are left").await;
    world.start().await;
    world.stop().await;
    assert!(kept.exists());
    refused(&world, "it is unknown whether any of its pods are left").await;

    world.engine_at(Path::new(&engine));
    world.remove("a.yaml");
    world.start().await;
    world.wait_gone("a").await;
    world.stop().await;
    world.node = new;
    world.write("b.yaml", &sleeper("b"));
    world.start().await;
    world.wait_ready("b").await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{}\n", world.node));
}

#[tokio::test]
async fn host_port_stays_reserved_until_its_pod_ended_across_a_restart() {
    let mut world = World::running("holder").await;
    let port = free_port();
    let of = |name: &str, script: &str| {
        let ports = format!("ports: [{{containerPort: 80, hostPort: {port}}}]");
        let spec = format!("containers:\n- {}", container("main", script, &ports));
        pod(name, &spec).replace("GracePeriodSeconds: 2", "GracePeriodSeconds: 30")
    };
    world.write("holder.yaml", &of("holder", "trap 'sleep 4; exit 0' TERM; echo up; sleep 1000000 & wait"));
    world.wait_for_log("holder", "main", "up").await;
    world.write("next.yaml", &of("next", FOREVER));
    world.wait_for_pod("next", "to be rejected", |pod| pod.phase() == "Failed").await;
    world.remove("holder.yaml");
    let is_ending = |pod: &tests::Pod| !pod.text("/metadata/deletionTimestamp").is_empty();
    world.wait_for_pod("holder", "to be ending", is_ending).await;
    world.kill();
    world.start().await;
    world.wait_ready("next").await;
    let events = world.events("next").await.unwrap();
    assert!(events.iter().all(|event| !event.contains("PodSandBox")), "it waited for the port: {events:?}");
}

#[tokio::test]
async fn pod_age_and_events_survive_a_kubelet_restart() {
    let mut world = World::running("memory").await;
    let refused = sleeper("refused").replace("containers:", "runtimeClassName: other\n  containers:");
    world.write("refused.yaml", &refused);
    let is_rejected = |pod: &tests::Pod| pod.phase() == "Failed";
    let before = world.wait_for_pod("refused", "to be rejected", is_rejected).await;
    let event = world.wait_for_event("refused", "UnsupportedField").await;
    world.stop().await;
    // Ages are shown in whole seconds.
    tests::moment(std::time::Duration::from_millis(1100)).await;
    world.start().await;
    assert_eq!(world.wait_for_event("refused", "UnsupportedField").await, event);
    let after = world.wait_for_pod("refused", "to be rejected again", is_rejected).await;
    let born = "/metadata/creationTimestamp";
    assert_eq!(after.text(born), before.text(born));
}
