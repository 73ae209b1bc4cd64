//! A manifest in the directory becomes a running, Ready pod on the engine.

use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{World, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn added_manifest_runs_and_is_reported() {
    let world = World::running("drop").await;
    world.write("web.yaml", &sleeper("web"));
    let found = world.wait_ready("web").await;

    assert_eq!(found.phase(), "Running");
    for condition in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert_eq!(found.condition(condition), "True", "condition {condition}");
    }
    assert_eq!(found.text("/spec/nodeName"), world.node);
    assert_eq!(found.text("/metadata/namespace"), "default");
    assert!(!found.ip().is_empty(), "a running pod has an address");
    assert_eq!(found.restarts("main"), 0);
    assert!(!found.container("main")["state"]["running"]["startedAt"].is_null());
    assert_eq!(found.container_id("main"), world.container("web", "main").await.unwrap().id);
}

#[tokio::test]
async fn containers_carry_the_labels_and_names_of_the_contract() {
    let world = World::running("labels").await;
    world.write("web.yaml", &sleeper("web"));
    let found = world.wait_ready("web").await;

    for name in ["main", "POD"] {
        let container = world.container("web", name).await.unwrap();
        let label = |key: &str| container.labels[&format!("io.kubernetes.{key}")].clone();
        assert_eq!(label("pod.name"), world.pod_name("web"));
        assert_eq!(label("pod.namespace"), "default");
        assert_eq!(label("pod.uid"), found.uid());
        assert_eq!(label("node.name"), world.node);
        assert_eq!(label("container.attempt"), "0");
        assert!(!label("container.hash").is_empty());
        let expected = format!("k8s_{name}_{}_default_{}_0", world.pod_name("web"), found.uid());
        assert_eq!(container.engine_name, expected);
    }
}

#[tokio::test]
async fn one_file_may_contain_many_pods_in_every_format() {
    let world = World::running("forms").await;
    world.write("stream.yml", &format!("{}---\n{}", sleeper("one"), sleeper("two")));
    let item = |name: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": tests::IMAGE, "command": ["sh", "-c", FOREVER]}]}})
    };
    let list =
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [item("three"), item("four")]});
    world.write("list.json", &list.to_string());
    for name in ["one", "two", "three", "four"] {
        world.wait_ready(name).await;
    }
}

#[tokio::test]
async fn kubelet_reads_only_manifest_files() {
    let world = World::new("count").await;
    world.write(".hidden.yaml", &sleeper("hidden"));
    world.write("web.yaml~", &sleeper("backup"));
    world.write("web.yaml.swp", &sleeper("swap"));
    world.write("readme.txt", &sleeper("text"));
    std::fs::create_dir(world.manifests().join("deeper")).unwrap();
    std::fs::write(world.manifests().join("deeper/web.yaml"), sleeper("deeper")).unwrap();
    world.write("web.yaml", &sleeper("web"));
    let mut world = world;
    world.start().await;
    world.wait_ready("web").await;
    let names: Vec<String> = world.pods().await.unwrap().iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(names, [world.pod_name("web")]);
}

#[tokio::test]
async fn containers_share_network_and_volume_and_serve_a_host_port() {
    let world = World::running("web").await;
    let port = free_port();
    let mount = "volumeMounts: [{name: www, mountPath: /www}]";
    let writer = container("writer", &format!("echo shared >/www/index.html; {FOREVER}"), mount);
    let ports = format!("{mount}, ports: [{{containerPort: 80, hostPort: {port}}}]");
    let server = container("server", "exec httpd -f -p 80 -h /www", &ports);
    let asker = container(
        "asker",
        &format!("until wget -qO- http://127.0.0.1/; do usleep 100000; done; {FOREVER}"),
        "",
    );
    world.write(
        "web.yaml",
        &pod(
            "web",
            &format!(
                "volumes: [{{name: www, emptyDir: {{}}}}]\ncontainers:\n- {writer}\n- {server}\n- {asker}"
            ),
        ),
    );
    world.wait_ready("web").await;
    world.wait_for_log("web", "asker", "shared").await;
    let page = world.wait_for("the page", async || get(&format!("127.0.0.1:{port}")).await).await;
    assert!(page.ends_with("shared\n"), "{page}");
}

async fn get(address: &str) -> Result<String, String> {
    let fetch = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        Ok::<_, std::io::Error>(page)
    };
    let page = fetch.await.map_err(|error| error.to_string())?;
    if page.contains("200 OK") { Ok(page) } else { Err(format!("it answered {page:?}")) }
}

#[tokio::test]
async fn two_nodes_share_an_engine_without_interference() {
    let one = World::running("one").await;
    let two = World::running("two").await;
    one.write("web.yaml", &sleeper("web"));
    two.write("web.yaml", &sleeper("web"));
    let first = one.wait_ready("web").await;
    let second = two.wait_ready("web").await;
    assert_ne!(first.uid(), second.uid());
    one.remove("web.yaml");
    one.wait_gone("web").await;
    assert_eq!(two.wait_ready("web").await.container_id("main"), second.container_id("main"));
}
