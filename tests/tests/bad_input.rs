//! Whatever stands in the directory, the neighbours run, and what is wrong has a name in `check`, events and status.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tests::manifest::{container, pod, scripted, sleeper};
use tests::{Pod, World, free_port};

/// Files that are no manifests, each with a word that its complaint must hold.
fn bad_files() -> Vec<(&'static str, String, &'static str)> {
    let whole = sleeper("cut");
    let aliases: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{p}, *a{p}]\n", p = n - 1)).collect();
    vec![
        ("cut.yaml", format!("{}\n  - name: \"x", &whole[..whole.len() - 20]), "cut.yaml"),
        ("cut.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"met".to_owned(), "cut.json"),
        ("empty.yaml", String::new(), "empty.yaml"),
        ("blank.json", "  \n".to_owned(), "blank.json"),
        ("deep.json", "[".repeat(10 * 1024 * 1024), "deep.json"),
        ("deep.yaml", "[".repeat(10 * 1024 * 1024), "deep.yaml"),
        ("bomb.yaml", format!("a0: &a0 [x]\n{aliases}"), "bomb.yaml"),
        ("binary.yaml", "\u{0}\u{1}\u{2}".to_owned(), "binary.yaml"),
        (
            "kind.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n".to_owned(),
            "Deployment",
        ),
        (
            "type.yaml",
            sleeper("type").replace("Seconds: 2", "Seconds: soon"),
            "terminationGracePeriodSeconds",
        ),
        ("field.yaml", sleeper("field").replace("restartPolicy", "restartpolicy"), "restartPolicy"),
        ("name.yaml", sleeper("Not_A_Name"), "metadata.name"),
        ("none.yaml", pod("none", "containers: []"), "containers"),
    ]
}

#[tokio::test]
async fn neighbours_of_bad_files_run_and_each_bad_file_is_named_in_an_event() {
    let mut world = World::new("files").await;
    for (file, text, _) in bad_files() {
        world.write(file, &text);
    }
    world.write("good.yaml", &sleeper("good"));
    world.start().await;
    world.wait_ready("good").await;
    for (file, _, _) in bad_files() {
        let look = async || {
            let events = world.get("events").await?;
            let named =
                events.iter().any(|event| event["message"].as_str().is_some_and(|text| text.contains(file)));
            if named {
                Ok(())
            } else {
                Err(format!("there are {} events, none of them names it", events.len()))
            }
        };
        world.wait_for(&format!("an event about {file}"), look).await;
    }
    let pods = world.pods().await.unwrap();
    assert_eq!(pods.len(), 1, "only the good pod: {:?}", pods.iter().map(Pod::name).collect::<Vec<_>>());
}

#[tokio::test]
async fn check_names_file_line_and_cure_and_exits_as_promised() {
    let world = World::new("check").await;
    let check = async |path: &str| world.kubelet_check(path).await;
    for (file, text, word) in bad_files() {
        let path = world.path(file);
        std::fs::write(&path, text).unwrap();
        let output = check(path.to_str().unwrap()).await;
        let said = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, 1, "{file}: {said}");
        assert!(said.contains(file) && said.contains(word), "{file}: {said}");
        assert!(said.len() < 20_000, "{file}: {} bytes of complaint", said.len());
    }
    let good = world.path("good.yaml");
    std::fs::write(&good, sleeper("good")).unwrap();
    assert_eq!(check(good.to_str().unwrap()).await.code, 0);
    assert_eq!(check(world.path("absent.yaml").to_str().unwrap()).await.code, 2);
    let typo = sleeper("x").replace("containers:", "contaniers:");
    let path = world.path("typo.yaml");
    std::fs::write(&path, &typo).unwrap();
    let said = check(path.to_str().unwrap()).await.stdout;
    let line = typo.lines().position(|line| line.contains("contaniers")).unwrap() + 1;
    assert!(said.contains(&format!("typo.yaml:{line}:3: ")), "file, line and column: {said}");
    assert!(said.contains("containers"), "the nearest known field: {said}");
}

#[tokio::test]
async fn of_two_pods_with_one_name_the_first_wins_loudly() {
    let mut world = World::new("twice").await;
    world.write("a.yaml", &scripted("web", "Never", "echo first"));
    world.write("b.yaml", &scripted("web", "Never", "echo second"));
    world.start().await;
    world.wait_for_log("web", "main", "first").await;
    world
        .wait_for("an event that names the second file", async || {
            let events = world.get("events").await?;
            let named = events
                .iter()
                .any(|event| event["message"].as_str().is_some_and(|text| text.contains("b.yaml")));
            if named { Ok(()) } else { Err(format!("the events are {events:?}")) }
        })
        .await;
}

#[tokio::test]
async fn of_two_pods_that_want_one_port_one_is_rejected() {
    let world = World::running("port").await;
    let port = free_port();
    let of = |name: &str| {
        let ports = format!("ports: [{{containerPort: 80, hostPort: {port}}}]");
        pod(name, &format!("containers:\n- {}", container("main", tests::manifest::FOREVER, &ports)))
    };
    world.write("a.yaml", &of("first"));
    world.wait_ready("first").await;
    world.write("b.yaml", &of("second"));
    let second = world.wait_for_pod("second", "to be rejected", |pod| pod.phase() == "Failed").await;
    let message = second.text("/status/message");
    assert!(message.contains(&port.to_string()), "the message names the port: {message}");
    assert!(world.pod("first").await.unwrap().is_ready());
}

#[tokio::test]
async fn a_command_that_does_not_exist_has_a_reason() {
    let world = World::running("command").await;
    let spec = format!(
        "restartPolicy: Never\ncontainers:\n- {{name: main, image: '{}', command: [/absent]}}",
        tests::IMAGE
    );
    world.write("bad.yaml", &pod("bad", &spec));
    let bad = world.wait_for_pod("bad", "to fail", |pod| !pod.terminated("main").is_null()).await;
    assert_eq!(bad.terminated("main")["reason"], "ContainerCannotRun");
    assert!(bad.terminated("main")["message"].as_str().unwrap().contains("/absent"));
}

#[tokio::test]
async fn a_link_that_leaves_its_volume_is_refused() {
    let world = World::running("escape").await;
    let outside = world.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "of the host").unwrap();
    let link = format!("ln -s {} /data/out", outside.display());
    let link = container("link", &link, "volumeMounts: [{name: work, mountPath: /data}]");
    let mount = "volumeMounts: [{name: work, mountPath: /mnt, subPath: out}]";
    let main = container("main", "cat /mnt/secret", mount);
    let spec = format!(
        "restartPolicy: Never\nvolumes: [{{name: work, emptyDir: {{}}}}]\ninitContainers:\n- {link}\ncontainers:\n- {main}"
    );
    world.write("bad.yaml", &pod("bad", &spec));
    let refused = |pod: &Pod| pod.waiting("main") == "CreateContainerConfigError";
    world.wait_for_pod("bad", "to be refused", refused).await;
    world.remove("bad.yaml");
    world.wait_gone("bad").await;
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "of the host");
}

#[tokio::test]
async fn a_pod_that_fills_its_volume_is_evicted_until_it_is_edited() {
    let world = World::running("evicted").await;
    let of = |limit: &str| {
        let script = format!("dd if=/dev/zero of=/data/file bs=1M count=3; {}", tests::manifest::FOREVER);
        let main = container("main", &script, "volumeMounts: [{name: data, mountPath: /data}]");
        let volumes = format!("volumes: [{{name: data, emptyDir: {{sizeLimit: {limit}}}}}]");
        pod("web", &format!("{volumes}\ncontainers:\n- {main}"))
    };
    world.write("web.yaml", &of("1Mi"));
    let is_evicted = |pod: &Pod| pod.text("/status/reason") == "Evicted";
    let web = world.wait_for_pod("web", "to be evicted", is_evicted).await;
    let message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\".";
    assert_eq!((web.phase(), web.text("/status/message")), ("Failed", message));
    world.wait_for_event("web", &format!("Evicted: {message}")).await;
    let file =
        world.root_dir().join("pods").join(web.uid()).join("volumes/kubernetes.io~empty-dir/data/file");
    let gone = async || if file.exists() { Err("it is there".to_owned()) } else { Ok(()) };
    world.wait_for("the file to go", gone).await;
    world.write("web.yaml", &of("8Mi"));
    world.wait_ready("web").await;
}
