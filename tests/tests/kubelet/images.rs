//! Images from a registry: public, password-protected, missing, and with each pull policy.

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
