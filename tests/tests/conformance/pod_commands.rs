//! kubectl commands for running pods.

use std::fs;
use std::sync::Arc;

use bollard::query_parameters::{RemoveImageOptionsBuilder, TagImageOptionsBuilder};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tests::manifest::FOREVER;
use tests::{DEADLINE, IMAGE, Output, tls_config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::node::{Node, path, shell};

/// Runs kubectl, which must succeed.
async fn kubectl(node: &Node, arguments: &[&str]) -> String {
    let Output { code, stdout, stderr } = node.cluster.kubectl(arguments).await;
    assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
    stdout
}

#[tokio::test]
async fn kubectl_runs_changes_and_describes_pods() {
    let node = Node::scheduled("typed").await;
    let version = kubectl(&node, &["version", "-o", "json"]).await;
    let version: Value = serde_json::from_str(&version).unwrap();
    for side in ["clientVersion", "serverVersion"] {
        for field in ["major", "minor", "gitVersion", "gitCommit", "platform", "goVersion"] {
            assert!(version[side][field].is_string(), "{side} {field}: {version}");
        }
    }
    let bare = "{\"spec\": {\"automountServiceAccountToken\": false, \"terminationGracePeriodSeconds\": 2}}";
    let run = async |name: &str, restart: &str| {
        let run = [
            "run",
            name,
            "--image",
            IMAGE,
            "--restart",
            restart,
            "--overrides",
            bare,
            "--labels",
            "run=typed",
        ];
        kubectl(&node, &[&run[..], &["--", "sh", "-c", FOREVER]].concat()).await;
        node.ready(name).await
    };
    let once = run("once", "Never").await;
    let container = &once.0["spec"]["containers"][0];
    assert_eq!((&container["image"], &once.0["spec"]["restartPolicy"]), (&json!(IMAGE), &json!("Never")));
    let ready = run("typed", "Always").await;

    kubectl(&node, &["label", "pods", "typed", "testing-label=testing-label-value"]).await;
    let shown = kubectl(&node, &["get", "pod", "typed", "-L", "testing-label"]).await;
    assert!(shown.contains("testing-label-value"), "{shown}");
    kubectl(&node, &["label", "pods", "typed", "testing-label-"]).await;
    let shown = kubectl(&node, &["get", "pod", "typed", "-L", "testing-label"]).await;
    assert!(!shown.contains("testing-label-value"), "{shown}");

    // A dry run changes nothing.
    let patch =
        "{\"spec\": {\"containers\": [{\"name\": \"typed\", \"image\": \"registry.example/other:1\"}]}}";
    kubectl(&node, &["patch", "pod", "typed", "-p", patch, "--dry-run=server"]).await;
    assert_eq!(node.ready("typed").await.0["spec"]["containers"][0]["image"], IMAGE);

    let output = kubectl(&node, &["describe", "pod", "typed"]).await;
    let (node_name, ip) = (node.world.node.clone(), ready.ip().to_owned());
    for line in [
        "Name:",
        "Namespace:",
        "Node:",
        "Labels:",
        "run=typed",
        "Status:",
        "Running",
        "IP:",
        &ip,
        "Image:",
        IMAGE,
        "State:",
        "Restart Count:",
        &node_name,
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    for (kind, name) in [("node", node_name.as_str()), ("namespace", "default")] {
        let output = kubectl(&node, &["describe", kind, name]).await;
        assert!(output.contains("Name:") && output.contains(name), "{output}");
    }

    // Another image: the container is restarted with it.
    let other = format!("{}/again:1", node.world.node);
    let tag = TagImageOptionsBuilder::new().repo(&format!("{}/again", node.world.node)).tag("1");
    let docker = node.world.engine.docker();
    docker.tag_image(IMAGE, Some(tag.build())).await.unwrap();
    let mut pod = node.cluster.get(&path("typed")).await.is(200);
    pod["spec"]["containers"][0]["image"] = json!(other);
    let file = node.world.path("typed.json");
    fs::write(&file, pod.to_string()).unwrap();
    kubectl(&node, &["replace", "-f", file.to_str().unwrap()]).await;
    let is_other = |pod: &tests::Pod| {
        pod.container("typed")["image"].as_str().is_some_and(|image| image.contains("again"))
    };
    node.until("typed", "to be of another image", is_other).await;
    kubectl(&node, &["delete", "pod", "once", "typed"]).await;
    node.cluster.gone(&path("typed")).await;
    let force = RemoveImageOptionsBuilder::new().force(true).build();
    docker.remove_image(&other, Some(force), None).await.unwrap();
}

#[tokio::test]
async fn kubectl_logs_filters_lines() {
    let node = Node::running("logs").await;
    let script = format!("for n in $(seq 1 20); do echo line $n; done; {FOREVER}");
    node.make("writes", json!({"spec": {"containers": [shell(&script)]}})).await;
    node.log_until("writes", "main", "all lines", |log| log.contains("line 20\n")).await;
    let logs = async |flags: &[&str]| kubectl(&node, &[&["logs", "writes", "main"], flags].concat()).await;
    assert_eq!(logs(&[]).await.lines().count(), 20);
    assert_eq!(logs(&["--tail=1"]).await, "line 20\n");
    assert_eq!(logs(&["--limit-bytes=1"]).await, "l");
    let stamped = logs(&["--tail=1", "--timestamps"]).await;
    let (time, rest) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && rest == "line 20\n", "{stamped:?}");
    assert_eq!(logs(&["--since=24h"]).await.lines().count(), 20);
    // Once the output is older than a second, it is omitted.
    let look = async || match logs(&["--since=1s"]).await {
        text if text.is_empty() => Ok(()),
        text => Err(text),
    };
    node.world.wait_for("its lines to be old", look).await;
}

/// The data of channel 1 (standard output) over a WebSocket to that path, in which each message starts with its channel number.
async fn over_websocket(node: &Node, path: &str) -> String {
    let master = &node.cluster.master;
    let admin = master.admin().unwrap();
    let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
    let connector = TlsConnector::from(Arc::new(tls_config(&admin.authority, Some(own)).unwrap()));
    let stream = TcpStream::connect(("127.0.0.1", master.port.number)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: channel.k8s.io\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains("channel.k8s.io"), "{head}");
    let mut printed = Vec::new();
    loop {
        let kind = stream.read_u8().await.unwrap() & 0xf;
        let length = match stream.read_u8().await.unwrap() {
            126 => u64::from(stream.read_u16().await.unwrap()),
            127 => stream.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut message = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut message).await.unwrap();
        match (kind, message.split_first()) {
            (8, _) => return String::from_utf8(printed).unwrap(),
            (1 | 2, Some((1, bytes))) => printed.extend(bytes),
            _ => {}
        }
    }
}

#[tokio::test]
async fn commands_run_over_a_websocket() {
    let node = Node::running("socket").await;
    node.make("web", json!({"spec": {"containers": [shell(FOREVER)]}})).await;
    node.ready("web").await;
    let command = "command=echo&command=remote+execution+test";
    let path = format!("{}/exec?container=main&stderr=1&stdout=1&{command}", path("web"));
    let printed = tokio::time::timeout(DEADLINE, over_websocket(&node, &path)).await.unwrap();
    assert_eq!(printed, "remote execution test\n");
}
