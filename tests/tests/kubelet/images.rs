//! Images from a registry: public, password-protected, missing, and with each pull policy.

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;
use tests::manifest::FOREVER;
use tests::manifest::pod;
use tests::{PASSWORD, Pod, Registry, USER, World};

fn of_image(name: &str, image: &str, policy: &str, more: &str) -> String {
    let script = serde_json::to_string(FOREVER).unwrap();
    pod(
        name,
        &format!(
            "{more}containers:\n- {{name: main, image: '{image}', imagePullPolicy: {policy}, command: [sh, -c, {script}]}}"
        ),
    )
}

/// A pull secret for a registry, as `kubectl create secret docker-registry` creates it.
fn pull_secret(registry: &Registry, password: &str) -> String {
    let config = serde_json::json!({"auths": {registry.address(): {"username": USER, "password": password}}});
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull}}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '{config}'\n"
    )
}

fn cannot_pull(pod: &Pod) -> bool {
    ["ErrImagePull", "ImagePullBackOff"].contains(&pod.waiting("main"))
}

#[tokio::test]
async fn an_image_is_pulled_from_a_registry() {
    let world = World::running("pull").await;
    let registry = Registry::open().await;
    let image = registry.push(&world.engine, "team/app", "1").await;
    world.write("app.yaml", &of_image("app", &image, "IfNotPresent", ""));
    world.wait_ready("app").await;
    world.wait_for_event("app", "Pulled").await;
    assert_eq!(world.pod("app").await.unwrap().container("main")["image"], image.as_str());
}

#[tokio::test]
async fn pull_secret_authenticates_at_a_private_registry() {
    let world = World::running("secret").await;
    let registry = Registry::with_password().await;
    let image = registry.push(&world.engine, "team/app", "1").await;
    world.write("none.yaml", &of_image("none", &image, "Always", ""));
    world.wait_for_pod("none", "to be refused", cannot_pull).await;
    world.write("pull.yaml", &pull_secret(&registry, PASSWORD));
    world.write("app.yaml", &of_image("app", &image, "Always", "imagePullSecrets: [{name: pull}]\n"));
    world.wait_ready("app").await;
}

#[tokio::test]
async fn a_wrong_registry_password_is_reported_and_a_corrected_one_is_used() {
    let world = World::running("wrong").await;
    let registry = Registry::with_password().await;
    let image = registry.push(&world.engine, "team/app", "1").await;
    world.write("pull.yaml", &pull_secret(&registry, "wrong"));
    world.write("app.yaml", &of_image("app", &image, "Always", "imagePullSecrets: [{name: pull}]\n"));
    let app = world.wait_for_pod("app", "to be refused", cannot_pull).await;
    assert_eq!(app.phase(), "Pending");
    world.wait_for_event("app", "Failed").await;
    world.write("pull.yaml", &pull_secret(&registry, PASSWORD));
    world.wait_ready("app").await;
}

#[tokio::test]
async fn missing_image_is_reported_and_retried_with_backoff() {
    let world = World::running("absent").await;
    let registry = Registry::open().await;
    let image = format!("{}/team/absent:9", registry.address());
    world.write("app.yaml", &of_image("app", &image, "IfNotPresent", ""));
    let waiting = |pod: &Pod| pod.waiting("main") == "ImagePullBackOff";
    let app = world.wait_for_pod("app", "to back off", waiting).await;
    let message = app.container("main")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("team/absent:9"), "{message}");
    world.wait_for_event("app", "Back-off pulling image").await;
}

#[tokio::test]
async fn pull_policy_decides_whether_the_registry_is_used() {
    let world = World::running("policy").await;
    let mut registry = Registry::open().await;
    let image = registry.push(&world.engine, "team/app", "1").await;
    world.write("never.yaml", &of_image("never", &image, "Never", ""));
    world.wait_for_pod("never", "to refuse", |pod| pod.waiting("main") == "ErrImageNeverPull").await;
    world.write("app.yaml", &of_image("app", &image, "IfNotPresent", ""));
    world.wait_ready("app").await;
    registry.stop();
    world.write("present.yaml", &of_image("present", &image, "IfNotPresent", ""));
    world.wait_ready("present").await;
    world.write("always.yaml", &of_image("always", &image, "Always", ""));
    world.wait_for_pod("always", "to fail while the registry is away", cannot_pull).await;
    registry.resume().await;
    world.wait_ready("always").await;
}

#[tokio::test]
async fn an_invalid_image_name_is_reported() {
    let world = World::running("name").await;
    world.write("bad.yaml", &of_image("bad", "Not A Name", "IfNotPresent", ""));
    world.wait_for_pod("bad", "to refuse", |pod| pod.waiting("main") == "InvalidImageName").await;
}

/// A registry that accepts connections and never answers.
fn silent_registry() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/never:1", listener.local_addr().unwrap());
    (listener, image)
}

#[tokio::test]
async fn hanging_pull_blocks_neither_edit_nor_deletion() {
    let world = World::running("silent").await;
    let (_listener, image) = silent_registry();
    for name in ["edited", "removed"] {
        world.write(&format!("{name}.yaml"), &of_image(name, &image, "Always", ""));
        world.wait_for_event(name, "Pulling").await;
    }
    world.write("edited.yaml", &of_image("edited", tests::IMAGE, "Never", ""));
    world.remove("removed.yaml");
    world.wait_ready("edited").await;
    world.wait_gone("removed").await;
}

/// Whether the engine has an image of this name.
async fn has_image(world: &World, name: &str) -> bool {
    world.engine.docker().inspect_image(name).await.is_ok()
}

#[tokio::test]
async fn unused_images_are_removed_if_the_kubelet_pulled_them() {
    // Every disk is fuller than 1 %, and no image is too young.
    let policy = "imageGCHighThresholdPercent: 1\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 0s\n";
    let mut world = World::new("imagegc").await.with_config(policy);
    let registry = Registry::open().await;
    let pulled = registry.push_new(&world.engine, "team/pulled", "1").await;
    let foreign = registry.push_new(&world.engine, "team/foreign", "1").await;
    let options = CreateImageOptionsBuilder::new().from_image(&foreign).build();
    let steps = world.engine.docker().create_image(Some(options), None, None).collect::<Vec<_>>().await;
    assert!(steps.iter().all(Result::is_ok), "{steps:?}");
    world.start().await;
    world.write("app.yaml", &of_image("app", &pulled, "IfNotPresent", ""));
    // The registry is asked, and has the image that another user of the engine pulled before.
    world.write("other.yaml", &of_image("other", &foreign, "Always", ""));
    for name in ["app", "other"] {
        world.wait_ready(name).await;
    }

    // A kubelet collects as soon as its engine answers. The images are in use, so it finds too few.
    let failed = async || {
        let events = world.get("events").await?;
        let found = events.iter().filter(|event| event["reason"] == "FreeDiskSpaceFailed");
        let text = found.map(|event| event["message"].to_string()).collect::<Vec<_>>().join("\n");
        let wanted = "Failed to garbage collect required amount of images. Attempted to free";
        if text.contains(wanted) { Ok(()) } else { Err(format!("{events:?}")) }
    };
    world.wait_for("the event of a failed collection", failed).await;
    world.stop().await;
    world.start().await;
    for name in ["app", "other"] {
        world.wait_ready(name).await;
        world.remove(&format!("{name}.yaml"));
        world.wait_gone(name).await;
    }
    assert!(
        has_image(&world, &pulled).await && has_image(&world, &foreign).await,
        "nothing is collected yet"
    );
    world.stop().await;
    world.start().await;
    let collected = async || if has_image(&world, &pulled).await { Err("it is there") } else { Ok(()) };
    let collected = async || collected().await.map_err(str::to_owned);
    world.wait_for("the pulled image to go", collected).await;
    assert!(has_image(&world, &foreign).await, "another user of the engine pulled it");
}
