//! Whatever the manifest directory contains, valid pods run, and `check`, events and the status name each problem.

use tests::manifest::{container, pod, scripted, sleeper};
use tests::{Pod, World, free_port};

/// Files that are no valid manifests, each with a word that its error must contain.
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
async fn invalid_files_get_an_event_and_do_not_affect_other_pods() {
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
async fn check_reports_file_line_and_remedy_with_the_documented_exit_code() {
    let world = World::new("check").await;
    let check = async |path: &str| world.kubelet_check(path).await;
    for (file, text, word) in bad_files() {
        let path = world.path(file);
        std::fs::write(&path, text).unwrap();
        let output = check(path.to_str().unwrap()).await;
        let output_text = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, 1, "{file}: {output_text}");
        assert!(output_text.contains(file) && output_text.contains(word), "{file}: {output_text}");
        assert!(output_text.len() < 20_000, "{file}: {} bytes of complaint", output_text.len());
    }
    let good = world.path("good.yaml");
    std::fs::write(&good, sleeper("good")).unwrap();
    assert_eq!(check(good.to_str().unwrap()).await.code, 0);
    assert_eq!(check(world.path("absent.yaml").to_str().unwrap()).await.code, 2);
    let typo = sleeper("x").replace("containers:", "contaniers:");
    let path = world.path("typo.yaml");
    std::fs::write(&path, &typo).unwrap();
    let output_text = check(path.to_str().unwrap()).await.stdout;
    let line = typo.lines().position(|line| line.contains("contaniers")).unwrap() + 1;
    assert!(output_text.contains(&format!("typo.yaml:{line}:3: ")), "file, line and column: {output_text}");
    assert!(output_text.contains("containers"), "the nearest known field: {output_text}");
}

#[tokio::test]
async fn first_of_two_pods_with_one_name_runs_and_the_second_gets_an_event() {
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
async fn second_pod_with_the_same_host_port_is_rejected() {
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
async fn missing_command_is_reported_with_a_reason() {
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
async fn symlink_out_of_a_volume_is_rejected() {
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
async fn pod_over_its_volume_limit_stays_evicted_until_it_is_edited() {
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

#[tokio::test]
async fn rejected_edit_is_reported_after_any_number_of_edits() {
    let world = World::running("refused-edit").await;
    let good = sleeper("web");
    let refused = good.replace("containers:", "hostUsers: false\n  containers:");
    let misspelt = good.replace("restartPolicy", "restartPolcy");
    world.write("web.yaml", &good);
    let before = world.wait_ready("web").await;
    let edit = |pod: &Pod| pod.condition("coracle.dev/EditPending").to_owned();
    for _ in 0..8 {
        world.write("web.yaml", &refused);
        world.wait_for_pod("web", "to have a pending edit", |pod| edit(pod) == "True").await;
        world.write("web.yaml", &good);
        world.wait_for_pod("web", "to have no pending edit", |pod| edit(pod) == "False").await;
    }
    world.write("web.yaml", &misspelt);
    let look = async || {
        let table = world.kubelet(&["get", "pods"]).await;
        let is_shown = table.stdout.contains("EDIT") && table.stdout.contains("InvalidManifest");
        if is_shown && table.stderr.contains("restartPolcy") { Ok(()) } else { Err(table.stdout) }
    };
    world.wait_for("the table to show the misspelt edit", look).await;
    let counted = async || {
        let events = world.get("events").await?;
        let of_edit = events.iter().find(|event| event["reason"] == "UnsupportedField");
        match of_edit.and_then(|event| event["count"].as_i64()) {
            Some(8) => Ok(()),
            other => Err(format!("{other:?} refused edits are counted")),
        }
    };
    world.wait_for("an event of each refused edit", counted).await;
    let log = std::fs::read_to_string(world.log_path()).unwrap();
    let name = format!("default/{}", world.pod_name("web"));
    let named = |line: &&str| line.contains(&name) && line.contains("UnsupportedField");
    assert!(log.lines().filter(named).count() >= 8, "{log}");
    let now = world.pod("web").await.unwrap();
    assert_eq!(now.container_id("main"), before.container_id("main"), "what ran goes on");
}
