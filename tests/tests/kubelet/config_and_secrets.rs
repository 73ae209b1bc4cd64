//! ConfigMaps and Secrets from manifests: as environment variables, as files, changed while the pod runs.

use tests::manifest::{FOREVER, container, pod};
use tests::{Pod, World};

fn config_map(motto: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop}}\ndata: {{motto: {motto}, currency: EUR}}\n"
    )
}

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: database}\nstringData: {password: battery}\ndata: {user: YWxpY2U=}\n";

/// A pod that prints its configuration, then its motto after each change.
fn shop() -> String {
    let script = "echo env=$CURRENCY,$PASSWORD,$ALL_motto; echo user=$(cat /secret/user); \
        while true; do now=$(cat /config/motto); [ \"$now\" = \"$last\" ] || echo motto=$now; last=$now; usleep 100000; done";
    let env = "env: [{name: CURRENCY, valueFrom: {configMapKeyRef: {name: shop, key: currency}}}, \
        {name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}], \
        envFrom: [{prefix: ALL_, configMapRef: {name: shop}}], \
        volumeMounts: [{name: config, mountPath: /config}, {name: secret, mountPath: /secret}]";
    let volumes = "volumes:\n- {name: config, configMap: {name: shop}}\n- {name: secret, secret: {secretName: database}}";
    pod("shop", &format!("{volumes}\ncontainers:\n- {}", container("main", script, env)))
}

#[tokio::test]
async fn pod_reads_config_maps_and_secrets_as_env_and_files() {
    let world = World::running("config").await;
    world.write("shop.yaml", &format!("{}---\n{SECRET}---\n{}", config_map("fresh"), shop()));
    world.wait_ready("shop").await;
    let log = world.wait_for_log("shop", "main", "motto=fresh").await;
    assert!(log.contains("env=EUR,battery,fresh"), "{log}");
    assert!(log.contains("user=alice"), "{log}");
}

#[tokio::test]
async fn config_map_change_updates_files_of_a_running_pod() {
    let world = World::running("live").await;
    world.write("config.yaml", &config_map("fresh"));
    world.write("secret.yaml", SECRET);
    world.write("shop.yaml", &shop());
    world.wait_for_log("shop", "main", "motto=fresh").await;
    let before = world.container("shop", "main").await.unwrap();
    world.write("config.yaml", &config_map("daily"));
    world.wait_for_log("shop", "main", "motto=daily").await;
    assert_eq!(world.container("shop", "main").await.unwrap(), before, "a new value restarts nothing");
}

#[tokio::test]
async fn pod_waits_for_referenced_objects() {
    let world = World::running("waits").await;
    let env = "env: [{name: MOTTO, valueFrom: {configMapKeyRef: {name: shop, key: motto}}}]";
    let main = container("main", &format!("echo motto=$MOTTO; {FOREVER}"), env);
    world.write("shop.yaml", &pod("shop", &format!("containers:\n- {main}")));
    let waiting = |pod: &Pod| pod.waiting("main") == "CreateContainerConfigError";
    let shop = world.wait_for_pod("shop", "to wait", waiting).await;
    let message = shop.container("main")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("shop"), "the message names the ConfigMap: {message}");
    world.write("config.yaml", &config_map("fresh"));
    world.wait_for_log("shop", "main", "motto=fresh").await;
}

#[tokio::test]
async fn missing_key_is_reported_unless_it_is_optional() {
    let world = World::running("key").await;
    let env = |optional: bool| {
        format!(
            "env: [{{name: X, valueFrom: {{configMapKeyRef: {{name: shop, key: absent, optional: {optional}}}}}}}]"
        )
    };
    let of = |name: &str, optional| {
        pod(
            name,
            &format!(
                "containers:\n- {}",
                container("main", &format!("echo x=$X; {FOREVER}"), &env(optional))
            ),
        )
    };
    world.write("config.yaml", &config_map("fresh"));
    world.write("must.yaml", &of("must", false));
    world.write("may.yaml", &of("may", true));
    world.wait_for_log("may", "main", "x=\n").await;
    let waiting = |pod: &Pod| pod.waiting("main") == "CreateContainerConfigError";
    let must = world.wait_for_pod("must", "to wait", waiting).await;
    let message = must.container("main")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("absent"), "the message names the key: {message}");
}

#[tokio::test]
async fn secret_volumes_are_tmpfs_with_the_requested_mode() {
    let world = World::running("tmpfs").await;
    let script = format!("grep ' /secret ' /proc/mounts; ls -lL /secret; {FOREVER}");
    let main =
        container("main", &script, "volumeMounts: [{name: secret, mountPath: /secret, readOnly: true}]");
    let spec = format!(
        "volumes: [{{name: secret, secret: {{secretName: database, defaultMode: 0400}}}}]\ncontainers:\n- {main}"
    );
    world.write("secret.yaml", SECRET);
    world.write("reader.yaml", &pod("reader", &spec));
    let log = world.wait_for_log("reader", "main", "user").await;
    assert!(log.contains("tmpfs /secret tmpfs ro"), "{log}");
    assert!(log.contains("-r--------"), "{log}");
}
