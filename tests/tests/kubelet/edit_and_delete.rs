//! An edited manifest is the same pod, and only changed containers restart; a deleted manifest deletes its pod.

use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{IMAGE, Pod, World};

fn two(label: &str, left: &str, right: &str) -> String {
    let script = |word: &str| format!("echo {word}; {FOREVER}");
    let spec = format!(
        "containers:\n- {}\n- {}",
        container("left", &script(left), ""),
        container("right", &script(right), "")
    );
    pod("two", &spec).replace("metadata:\n", &format!("metadata:\n  labels: {{tier: {label}}}\n"))
}

async fn ids(world: &World, pod: &str) -> [String; 3] {
    let id = async |name| world.container(pod, name).await.unwrap().id;
    [id("POD").await, id("left").await, id("right").await]
}

#[tokio::test]
async fn edit_restarts_only_changed_containers() {
    let world = World::running("edit").await;
    world.write("two.yaml", &two("a", "first", "same"));
    let before_pod = world.wait_ready("two").await;
    let before = ids(&world, "two").await;

    world.write("two.yaml", &two("a", "second", "same"));
    world.wait_for_log("two", "left", "second").await;
    let after_pod = world.wait_ready("two").await;
    let after = ids(&world, "two").await;

    assert_eq!(after[0], before[0], "the sandbox stays");
    assert_ne!(after[1], before[1], "the changed container is new");
    assert_eq!(after[2], before[2], "the other container stays");
    assert_eq!(after_pod.uid(), before_pod.uid());
    assert_eq!(world.pods().await.unwrap().len(), 1, "an edit makes no second pod");
}

#[tokio::test]
async fn label_and_formatting_changes_restart_no_container() {
    let world = World::running("layout").await;
    world.write("two.yaml", &two("a", "x", "y"));
    world.wait_ready("two").await;
    let before = ids(&world, "two").await;

    world.write("two.yaml", &format!("# a comment\n{}", two("b", "x", "y")));
    let relabelled = |pod: &Pod| pod.text("/metadata/labels/tier") == "b";
    world.wait_for_pod("two", "its new label", relabelled).await;

    // The same pod in a file with another name.
    std::fs::rename(world.manifests().join("two.yaml"), world.manifests().join("renamed.yaml")).unwrap();
    world.write("marker.yaml", &sleeper("marker"));
    world.wait_ready("marker").await;
    assert_eq!(ids(&world, "two").await, before);
    assert_eq!(world.pod("two").await.unwrap().restarts("left"), 0);
}

#[tokio::test]
async fn removed_file_ends_only_its_pod() {
    let world = World::running("remove").await;
    world.write("gone.yaml", &sleeper("gone"));
    world.write("stays.yaml", &sleeper("stays"));
    world.wait_ready("gone").await;
    let stays = world.wait_ready("stays").await;

    world.remove("gone.yaml");
    world.wait_gone("gone").await;
    let after = world.wait_ready("stays").await;
    assert_eq!(after.container_id("main"), stays.container_id("main"));
}

#[tokio::test]
async fn readded_pod_starts_again() {
    let world = World::running("again").await;
    world.write("web.yaml", &sleeper("web"));
    let first = world.wait_ready("web").await;
    world.remove("web.yaml");
    world.wait_gone("web").await;
    world.write("web.yaml", &sleeper("web"));
    let second = world.wait_ready("web").await;
    assert_eq!(second.uid(), first.uid(), "the same name from the same source is the same pod");
    assert_ne!(second.container_id("main"), first.container_id("main"));
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_version_running() {
    let world = World::running("broken").await;
    world.write("two.yaml", &two("a", "x", "y"));
    world.wait_ready("two").await;
    let before = ids(&world, "two").await;

    world.write("two.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: two\n");
    world
        .wait_for("an event that names the file", async || {
            let events = world.get("events").await?;
            let named = events
                .iter()
                .any(|event| event["message"].as_str().is_some_and(|text| text.contains("two.yaml")));
            if named { Ok(()) } else { Err(format!("the events are {events:?}")) }
        })
        .await;
    assert_eq!(ids(&world, "two").await, before);

    world.write("two.yaml", &two("a", "mended", "y"));
    world.wait_for_log("two", "left", "mended").await;
    assert_eq!(ids(&world, "two").await[2], before[2]);
}

#[tokio::test]
async fn impossible_edit_stops_no_container() {
    let world = World::running("unmade").await;
    let manifest = two("a", "x", "y");
    world.write("two.yaml", &manifest);
    world.wait_ready("two").await;
    let before = ids(&world, "two").await;
    let waits = async |broken: &str, why: &str| {
        world.write("two.yaml", broken);
        let edit_event = world.wait_for_event("two", why).await;
        assert!(
            edit_event.contains("The edit is pending, the previous version keeps running"),
            "{edit_event}"
        );
        assert_eq!(ids(&world, "two").await, before, "{why}");
    };
    let left = "{name: left, ";
    waits(
        &manifest.replacen(
            &format!("image: '{IMAGE}'"),
            "image: 'coracle/nowhere:1', imagePullPolicy: Never",
            1,
        ),
        "coracle/nowhere:1",
    )
    .await;
    let no_map = "envFrom: [{configMapRef: {name: nowhere}}], ";
    waits(&manifest.replace(left, &format!("{left}{no_map}")), "configmap \"nowhere\" not found").await;
    assert!(world.pod("two").await.unwrap().is_ready());
    waits(
        &manifest.replace(left, "{name: renamed, imagePullPolicy: Never, ").replacen(
            IMAGE,
            "coracle/nowhere:2",
            1,
        ),
        "coracle/nowhere:2",
    )
    .await;
    // The whole pod must be replaced.
    let all = manifest.replace("spec:\n", "spec:\n  hostname: other\n").replacen(
        &format!("image: '{IMAGE}'"),
        "image: 'coracle/nowhere:3', imagePullPolicy: Never",
        1,
    );
    waits(&all, "coracle/nowhere:3").await;

    world.write("two.yaml", &two("a", "mended", "y"));
    world.wait_for_log("two", "left", "mended").await;
    assert_eq!(ids(&world, "two").await[2], before[2]);
}
