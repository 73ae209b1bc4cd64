//! How pods start and end: init containers, lifecycle hooks, restarts, and termination messages.

use serde_json::{Value, json};
use tests::Pod;
use tests::manifest::FOREVER;

use crate::node::{Node, path, shell, slug, with};

/// Answers each HTTP request with OK, and logs its first line.
const EAR: &str = "exec nc -ll -p 8080 -e sh -c 'read first; echo \"$first\" >/proc/1/fd/1; while read line; do [ ${#line} -le 1 ] && break; done; \
                   printf \"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok\"'";

fn init(name: &str, script: &str) -> Value {
    with(shell(script), &json!({"name": name}))
}

/// The exit code of a terminated container.
fn code(pod: &Pod, container: &str) -> Option<i64> {
    pod.terminated(container)["exitCode"].as_i64()
}

#[tokio::test]
async fn init_containers_run_before_app_containers() {
    let node = Node::running("init").await;
    let (one, two) = (init("init1", "true"), init("init2", "true"));
    for (name, policy, inits, main) in [
        ("never", "Never", [&one, &two], "true"),
        ("always", "Always", [&one, &two], FOREVER),
        ("fails, never", "Never", [&one, &init("init2", "exit 1")], "true"),
        ("fails, always", "Always", [&init("init1", "exit 1"), &two], FOREVER),
    ] {
        let spec = json!({"restartPolicy": policy, "initContainers": inits, "containers": [shell(main)]});
        node.make(&slug(name), json!({"spec": spec})).await;
    }
    let ran = |pod: &Pod| code(pod, "init1") == Some(0) && code(pod, "init2") == Some(0);
    let initialized = |pod: &Pod| pod.condition("Initialized") == "True";
    node.until(&slug("never"), "to have run", |pod| {
        pod.phase() == "Succeeded" && ran(pod) && initialized(pod) && code(pod, "main") == Some(0)
    })
    .await;
    node.until(&slug("always"), "to run", |pod| {
        pod.phase() == "Running" && ran(pod) && initialized(pod) && pod.is_ready()
    })
    .await;
    let waits = |pod: &Pod| !initialized(pod) && pod.waiting("main") == "PodInitializing";
    node.until(&slug("fails, never"), "to have failed", |pod| {
        pod.phase() == "Failed"
            && waits(pod)
            && (code(pod, "init1"), code(pod, "init2")) == (Some(0), Some(1))
    })
    .await;
    node.until(&slug("fails, always"), "to try again", |pod| {
        pod.phase() == "Pending" && waits(pod) && pod.restarts("init1") >= 2 && pod.restarts("init2") == 0
    })
    .await;
}

#[tokio::test]
async fn lifecycle_hooks_are_called() {
    let node = Node::running("hooks").await;
    let listens = json!({"readinessProbe": {"tcpSocket": {"port": 8080}}});
    node.make("ear", json!({"spec": {"containers": [with(shell(EAR), &listens)]}})).await;
    let ip = node.until("ear", "to have an address", |pod| pod.is_ready() && !pod.ip().is_empty()).await;
    let is_called = async |name: &str| {
        node.log_until("ear", "main", name, |log| log.contains(&format!("GET /{name} "))).await;
    };
    let exec = |name: &str| json!({"exec": {"command": ["wget", "-qO-", format!("http://{}:8080/{name}", ip.ip())]}});
    let http = |name: &str| json!({"httpGet": {"host": ip.ip(), "port": 8080, "path": format!("/{name}")}});
    for (name, lifecycle) in [
        ("poststart-exec", json!({"postStart": exec("poststart-exec")})),
        ("poststart-http", json!({"postStart": http("poststart-http")})),
        ("prestop-exec", json!({"preStop": exec("prestop-exec")})),
        ("prestop-http", json!({"preStop": http("prestop-http")})),
    ] {
        let main = with(shell(FOREVER), &json!({"lifecycle": lifecycle}));
        let spec = json!({"containers": [main], "terminationGracePeriodSeconds": 30});
        node.make(name, json!({"spec": spec})).await;
    }
    for name in ["poststart-exec", "poststart-http", "prestop-exec", "prestop-http"] {
        node.ready(name).await;
        if name.starts_with("prestop") {
            let log = node.log("ear", "main").await;
            assert!(!log.contains(name), "it was called before the end: {log}");
            node.cluster.delete(&path(name)).await.is(200);
        }
        is_called(name).await;
    }
    for name in ["prestop-exec", "prestop-http"] {
        node.cluster.gone(&path(name)).await;
    }
}

#[tokio::test]
async fn restart_policy_and_termination_message_are_respected() {
    let node = Node::running("ends").await;
    // Fails at the first start, succeeds at the second, and keeps running at the third.
    let script =
        format!("echo x >>/count/n; case $(wc -l </count/n) in 1) exit 1;; 2) exit 0;; *) {FOREVER};; esac");
    let mount = json!([{"name": "count", "mountPath": "/count"}]);
    for policy in ["Always", "OnFailure", "Never"] {
        let main = with(shell(&script), &json!({"volumeMounts": mount}));
        let spec = json!({"containers": [main], "restartPolicy": policy, "volumes": [{"name": "count", "emptyDir": {}}]});
        node.make(&slug(policy), json!({"spec": spec})).await;
    }
    let policy = "FallbackToLogsOnError";
    for (name, script, more, phase, message) in [
        (
            "path of its own",
            "printf DONE >/dev/termination-custom-log",
            json!({"terminationMessagePath": "/dev/termination-custom-log", "securityContext": {"runAsUser": 10000}}),
            "Succeeded",
            "DONE",
        ),
        (
            "from the log",
            "printf DONE; exit 1",
            json!({"terminationMessagePolicy": policy}),
            "Failed",
            "DONE",
        ),
        ("no message", "printf DONE", json!({"terminationMessagePolicy": policy}), "Succeeded", ""),
        (
            "from the file",
            "printf OK >/dev/termination-log; printf DONE",
            json!({"terminationMessagePolicy": policy}),
            "Succeeded",
            "OK",
        ),
    ] {
        let main = with(shell(script), &more);
        node.make(&slug(name), json!({"spec": {"containers": [main]}})).await;
        let ended = node.until(&slug(name), "to have ended", |pod| pod.phase() == phase).await;
        let termination_message = ended.terminated("main")["message"].as_str().unwrap_or_default();
        assert_eq!(termination_message, message, "{name}: {}", ended.0["status"]);
    }

    // A container that always fails reports its exit code; a pod that is restarted again and again is deleted like any other.
    node.make("false", json!({"spec": {"containers": [shell("false")]}})).await;
    let failed = node.until("false", "to have failed", |pod| pod.phase() == "Failed").await;
    assert_eq!((&failed.terminated("main")["reason"], code(&failed, "main")), (&json!("Error"), Some(1)));
    node.make("loops", json!({"spec": {"containers": [shell("false")], "restartPolicy": "Always"}})).await;
    node.until("loops", "to be begun again", |pod| pod.restarts("main") >= 1).await;
    node.cluster.delete(&path("loops")).await.is(200);
    node.cluster.gone(&path("loops")).await;

    node.make("hello", json!({"spec": {"containers": [shell("echo Hello World; echo aside >&2")]}})).await;
    node.until("hello", "to end", |pod| pod.phase() == "Succeeded").await;
    let log = node.log("hello", "main").await;
    assert!(log.contains("Hello World\n") && log.contains("aside\n"), "{log:?}");

    let ended =
        |pod: &Pod, phase: &str, restarts: i64| pod.phase() == phase && pod.restarts("main") == restarts;
    node.until(&slug("Never"), "to fail", |pod| ended(pod, "Failed", 0) && code(pod, "main") == Some(1))
        .await;
    node.until(&slug("OnFailure"), "to end well", |pod| {
        ended(pod, "Succeeded", 1) && code(pod, "main") == Some(0)
    })
    .await;
    node.until(&slug("Always"), "to run", |pod| ended(pod, "Running", 2) && pod.is_ready()).await;
}
