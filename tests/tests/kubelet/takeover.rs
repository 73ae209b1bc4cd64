//! State that survives a kubelet restart: adopted containers, readiness, back-offs, and completed pods.

use std::fs;
use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use tests::manifest::{FOREVER, container, pod, scripted, sleeper};
use tests::{History, Pod, World, wait_until};

/// A web server with a readiness probe each second; the first probe of an adopted container runs within one period.
fn probed(name: &str) -> String {
    let script = format!("mkdir -p /www; echo hello >/www/index.html; httpd -p 8080 -h /www; {FOREVER}");
    let probe = "readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 30, \
        failureThreshold: 1}";
    pod(name, &format!("containers:\n- {}", container("main", &script, probe)))
}

/// The state that must not change: identity, readiness and its transition time.
fn standing(pod: &Pod) -> (String, String, String, i64) {
    let ready = pod.0["status"]["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
    let text = |name: &str| ready.map(|c| c[name].to_string()).unwrap_or_default();
    (pod.container_id("main").to_owned(), text("status"), text("lastTransitionTime"), pod.restarts("main"))
}

/// Observes the pod until a probe of the new kubelet has run, and asserts that its state never changes.
async fn stays_as_it_was(world: &World, name: &str, before: &(String, String, String, i64)) {
    let log_length = world.engine.logs(&before.0).await.unwrap_or_default().len();
    let look = async || {
        if let Ok(pod) = world.pod(name).await {
            assert_eq!(standing(&pod), *before, "a restart of the kubelet is no news about a pod");
        }
        // The server logs one line for each request.
        let log = world.engine.logs(&before.0).await.unwrap_or_default().len();
        if log > log_length { Ok(()) } else { Err("no probe has looked yet".to_owned()) }
    };
    world.wait_for("a probe of the new kubelet", look).await;
    assert_eq!(standing(&world.pod(name).await.unwrap()), *before);
}

#[tokio::test]
async fn kubelet_restart_keeps_readiness() {
    let mut world = World::running("flip").await;
    world.write(
        "web.yaml",
        &probed("web").replace("httpd -p", "httpd -vv -f -p").replace("/www; trap", "/www & trap"),
    );
    let before = standing(&world.wait_ready("web").await);
    world.stop().await;
    world.start().await;
    stays_as_it_was(&world, "web", &before).await;
    world.kill();
    world.start().await;
    stays_as_it_was(&world, "web", &before).await;
}

#[tokio::test]
async fn upgraded_kubelet_adopts_containers() {
    let mut world = World::running("upgrade").await;
    let history = History::of(&world.engine, &world.node).await;
    let both = format!(
        "initContainers:\n- {}\ncontainers:\n- {}\n- {}",
        container("side", FOREVER, "restartPolicy: Always"),
        container("main", FOREVER, ""),
        container("second", FOREVER, "")
    );
    world.write("a.yaml", &pod("a", &both));
    world.write("job.yaml", &scripted("job", "Never", "exit 0"));
    world.wait_ready("a").await;
    world.wait_done("job").await;
    let before = world.containers().await;

    world.upgrade();
    world.stop().await;
    world.start().await;
    world.wait_ready("a").await;
    world.wait_for_pod("job", "to be done", |pod| pod.phase() == "Succeeded").await;
    // A pod that is added later shows that the new kubelet works and could have changed the old pods by now.
    world.write("later.yaml", &sleeper("later"));
    world.wait_ready("later").await;
    let mut after = world.containers().await;
    after.retain(|c| c.pod != world.pod_name("later"));
    assert_eq!(after, before);
    assert_eq!(history.broken(), Vec::<String>::new());
}

#[tokio::test]
async fn crash_loop_backoff_survives_a_kubelet_restart() {
    let mut world = World::new("backoff").await;
    let history = History::of(&world.engine, &world.node).await;
    world.start().await;
    world.write("a.yaml", &scripted("a", "Always", "exit 3"));
    // The first restart is immediate; the second one waits ten seconds.
    let full = world.pod_name("a");
    let waits = |pod: &Pod| pod.restarts("main") == 1 && pod.waiting("main") == "CrashLoopBackOff";
    world.wait_for_pod("a", "to wait", waits).await;
    world.kill();
    world.start().await;
    // The back-off may have ended while the kubelet started; the events show its length.
    let waits_again = |pod: &Pod| pod.restarts("main") >= 1 && pod.waiting("main") == "CrashLoopBackOff";
    let after = world.wait_for_pod("a", "to wait", waits_again).await;
    assert_eq!(after.container("main")["lastState"]["terminated"]["exitCode"], 3);
    let thrice = async || {
        let starts = history.starts(&full, "main");
        if starts.len() == 3 { Ok(starts) } else { Err(format!("its starts are {starts:?}")) }
    };
    let starts = world.wait_for("two restarts", thrice).await;
    let events = history.events();
    let attempts: Vec<u32> = starts.iter().map(|start| start.attempt).collect();
    assert_eq!(attempts, [0, 1, 2]);
    let end = events.iter().find(|e| e.action == "die" && e.id == starts[1].id).unwrap();
    let waited = end.until(&starts[2]);
    assert!(waited >= Duration::from_millis(9_900), "it waited {waited:?}");
    let twenty = |pod: &Pod| pod.container("main")["state"]["waiting"]["message"].to_string().contains("20s");
    world.wait_for_pod("a", "to wait twice as long", twenty).await;
}

#[tokio::test]
async fn completed_pod_stays_completed_after_its_container_was_pruned() {
    let mut world = World::running("pruned").await;
    let runs = world.path("runs");
    let job = |name: &str| {
        let main = container("main", "echo ran >>/runs", "volumeMounts: [{name: runs, mountPath: /runs}]");
        let path = runs.with_extension(name);
        fs::write(&path, "").unwrap();
        let volumes = format!("volumes:\n- {{name: runs, hostPath: {{path: {}}}}}", path.display());
        pod(name, &format!("restartPolicy: OnFailure\n{volumes}\ncontainers:\n- {main}"))
    };
    for name in ["up", "down"] {
        world.write(&format!("{name}.yaml"), &job(name));
    }
    let done = |pod: &Pod| pod.phase() == "Succeeded";
    for name in ["up", "down"] {
        world.wait_done(name).await;
    }
    let prune = async |world: &World, name: &str| {
        let id = world.container(name, "main").await.unwrap().id;
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        world.engine.docker().remove_container(&id, Some(options)).await.unwrap();
    };
    prune(&world, "up").await;
    world.kill();
    prune(&world, "down").await;
    world.start().await;
    world.write("later.yaml", &sleeper("later"));
    world.wait_ready("later").await;
    for name in ["up", "down"] {
        let pod = world.wait_for_pod(name, "to be done", done).await;
        assert_eq!(pod.terminated("main")["exitCode"], 0, "{}", pod.0["status"]);
        assert_eq!(fs::read_to_string(runs.with_extension(name)).unwrap(), "ran\n");
        assert!(world.container(name, "main").await.is_err(), "it has no container again");
    }
}

#[tokio::test]
async fn pod_removed_without_a_kubelet_ends_with_its_grace_period() {
    let mut world = World::running("grace").await;
    let script = "trap 'sleep 1; echo goodbye >/out/said; exit 0' TERM; echo up; sleep 1000000 & wait";
    fs::create_dir(world.path("out")).unwrap();
    let main = container("main", script, "volumeMounts: [{name: out, mountPath: /out}]");
    let volumes = format!("volumes:\n- {{name: out, hostPath: {{path: {}}}}}", world.path("out").display());
    // Long enough for the script on a busy machine.
    let manifest = pod("a", &format!("{volumes}\ncontainers:\n- {main}"));
    world.write("a.yaml", &manifest.replace("GracePeriodSeconds: 2", "GracePeriodSeconds: 30"));
    world.wait_for_log("a", "main", "up").await;
    world.kill();
    world.remove("a.yaml");
    world.start().await;
    world.wait_gone("a").await;
    let read_file = async || fs::read_to_string(world.path("out/said")).map_err(|error| error.to_string());
    assert_eq!(wait_until(Duration::ZERO, read_file).await.unwrap(), "goodbye\n");
}
