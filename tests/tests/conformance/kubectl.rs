//! kubectl commands that need no node.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tests::{DEADLINE, installed, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cluster::Cluster;

#[tokio::test]
async fn kubectl_shows_versions_and_the_control_plane() {
    let cluster = Cluster::running().await;
    let versions = cluster.kubectl(&["api-versions"]).await.stdout;
    assert!(versions.lines().any(|line| line == "v1") && versions.contains("apps/v1"), "{versions}");
    let info = cluster.kubectl(&["cluster-info"]).await.stdout;
    assert!(info.contains("Kubernetes control plane") && info.contains("is running at"), "{info}");
}

#[tokio::test]
async fn kubectl_diff_shows_the_changes_of_a_deployment() {
    let cluster = Cluster::running().await;
    let labels = json!({"app": "web"});
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "registry.example/i:1"}]}}}});
    let file = cluster.master.data_dir().join("web.json");
    let diff = async || cluster.kubectl(&["diff", "-f", file.to_str().unwrap()]).await;
    std::fs::write(&file, deployment.to_string()).unwrap();
    assert_eq!(cluster.kubectl(&["create", "-f", file.to_str().unwrap()]).await.code, 0);
    assert_eq!(diff().await.code, 0);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/i:2");
    std::fs::write(&file, deployment.to_string()).unwrap();
    let found = diff().await;
    assert_eq!(found.code, 1, "{found:?}");
    for line in ["registry.example/i:1", "registry.example/i:2"] {
        assert!(found.stdout.contains(line), "{found:?}");
    }
}

/// A `kubectl proxy` process that ends with the test.
struct Proxy(Child);

impl Proxy {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut command = Command::new(installed("kubernetes-client", "kubectl"));
        command.env("HOME", cluster.master.data_dir()).arg("--kubeconfig");
        command.arg(cluster.master.data_dir().join("admin.kubeconfig")).arg("proxy").args(arguments);
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request for `/api/` over a connection.
async fn check_proxy<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(mut stream: S) {
    stream.write_all(b"GET /api/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("APIVersions"), "{answer}");
}

#[tokio::test]
async fn kubectl_proxy_serves_at_a_free_port_and_a_unix_socket() {
    let cluster = Cluster::running().await;
    let mut proxy = Proxy::start(&cluster, &["--port=0"]);
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    check_proxy(tokio::net::TcpStream::connect(address).await.unwrap()).await;

    let socket = cluster.master.data_dir().join("proxy.sock");
    let _proxy = Proxy::start(&cluster, &["--unix-socket", socket.to_str().unwrap()]);
    let look = async || tokio::net::UnixStream::connect(&socket).await.map_err(|error| error.to_string());
    check_proxy(wait_until(DEADLINE, look).await.unwrap()).await;
}
