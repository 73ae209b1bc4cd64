//! Probes: healthy containers run on, others are restarted or get no traffic.

use serde_json::{Value, json};
use tests::Pod;
use tests::manifest::FOREVER;

use crate::node::{Node, shell, slug, with};

/// The number of successful probes after which a test assumes that they have no effect.
const ASKED: usize = 4;

/// A pod whose container has a probe with a period of one second and a failure threshold of one.
fn probed(kind: &str, script: &str, handler: Value, more: &Value) -> Value {
    let probe = with(with(handler, &json!({"periodSeconds": 1, "failureThreshold": 1})), more);
    let main = with(shell(script), &json!({kind: probe}));
    json!({"spec": {"containers": [main], "restartPolicy": "Always"}})
}

/// Serves `/www` on port 8080 and logs the clients.
const SERVES: &str = "mkdir /www; echo ok >/www/healthz; httpd -f -vv -p 8080 -h /www 2>&1";

/// Accepts connections on port 8080 and logs them.
const TAKES: &str = "exec nc -ll -p 8080 -e sh -c 'echo asked >/proc/1/fd/1'";

#[tokio::test]
async fn probes_restart_only_unhealthy_containers() {
    let node = Node::running("probes").await;
    let healthz = json!({"httpGet": {"path": "/healthz", "port": 8080}});
    let health = json!({"exec": {"command": ["sh", "-c", "cat /tmp/health && echo asked >/proc/1/fd/1"]}});
    let fails = json!({"exec": {"command": ["sh", "-c", "echo asked >/proc/1/fd/1; exit 1"]}});
    let tcp = json!({"tcpSocket": {"port": 8080}});
    // A server that is still starting is not unhealthy, nor is one that answers late on a loaded machine.
    let soon = json!({"initialDelaySeconds": 2, "failureThreshold": 3, "timeoutSeconds": 10});
    let patient = json!({"initialDelaySeconds": 2, "timeoutSeconds": 10});
    let healthy = format!("echo ok >/tmp/health; {FOREVER}");
    let sick = format!("echo ok >/tmp/health; (usleep 1500000; rm /tmp/health) & {FOREVER}");
    let sick_http = format!("(usleep 2500000; rm /www/healthz) & {SERVES}");
    let later = json!({"initialDelaySeconds": 5});
    for (name, pod) in [
        ("http, well", probed("livenessProbe", SERVES, healthz.clone(), &soon)),
        ("exec, well", probed("livenessProbe", &healthy, health.clone(), &patient)),
        ("tcp, well", probed("livenessProbe", TAKES, tcp, &soon)),
        ("never ready", probed("readinessProbe", FOREVER, fails, &json!({}))),
        ("http, sick", probed("livenessProbe", &sick_http, healthz, &soon)),
        ("exec, sick", probed("livenessProbe", &sick, health, &json!({}))),
        ("ready later", probed("readinessProbe", FOREVER, json!({"exec": {"command": ["true"]}}), &later)),
    ] {
        node.make(&slug(name), pod).await;
    }
    for (name, word) in [
        ("http, well", "response:200"),
        ("exec, well", "asked"),
        ("tcp, well", "asked"),
        ("never ready", "asked"),
    ] {
        let often = |log: &str| log.matches(word).count() >= ASKED;
        node.log_until(&slug(name), "main", &format!("{word} {ASKED} times"), often).await;
        let now = node.until(&slug(name), "to run", |pod| pod.phase() == "Running").await;
        let is_ready = name != "never ready";
        assert_eq!((now.restarts("main"), now.is_ready()), (0, is_ready), "{name}: {}", now.0["status"]);
    }
    for name in ["http, sick", "exec, sick"] {
        node.until(&slug(name), "to be begun again", |pod| pod.restarts("main") >= 1).await;
    }
    let ready = node.ready(&slug("ready later")).await;
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let began = time(ready.container("main")["state"]["running"]["startedAt"].as_str().unwrap());
    let conditions = ready.0["status"]["conditions"].as_array().unwrap();
    let since = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let since = time(since["lastTransitionTime"].as_str().unwrap());
    assert!(since.duration_since(began).as_secs() >= 4, "{}", ready.0["status"]);
    assert_eq!(ready.restarts("main"), 0);

    // The restart count never decreases.
    let mut last = 0;
    node.until(&slug("exec, sick"), "to be begun again and again", |pod: &Pod| {
        let now = pod.restarts("main");
        assert!(now >= last, "{last} runs before it, and then {now}");
        last = now;
        now >= 2
    })
    .await;
}
