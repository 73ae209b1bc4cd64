//! Clients of a master: as a user, over HTTP/1.1 or HTTP/2, or with raw bytes.

use std::sync::Arc;

use ::master::kubeconfig::Kubeconfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tests::{Master, tls_config, trusting};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub fn url(master: &Master, path: &str) -> String {
    format!("https://127.0.0.1:{}{path}", master.port)
}

pub fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// A client of a user with all permissions by a role. Unlike the administrator, the user is subject to limits.
pub async fn user(master: &Master, name: &str) -> reqwest::Client {
    let (authority, certificates, key) = user_files(master, name).await;
    trusting(&authority, Some((&certificates, &key))).unwrap()
}

/// CA certificate, client certificate and key of such a user.
pub async fn user_files(master: &Master, name: &str) -> (String, String, String) {
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
    });
    let bindings = url(master, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings");
    let made = master.client().post(bindings).json(&binding).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let kubeconfig = master.verb(&["kubeconfig", "--user", name]).await;
    let who = Kubeconfig::read(&kubeconfig.stdout).unwrap_or_else(|| panic!("{kubeconfig:?}"));
    (who.authority, who.credentials.certificates, who.credentials.key)
}

/// A TLS connection of the administrator, without any request yet.
pub async fn connection(master: &Master) -> TlsStream<TcpStream> {
    let admin = master.admin().unwrap();
    let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
    let mut config = tls_config(&admin.authority, Some(own)).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", master.port.number)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Resident memory of the master in KiB.
pub fn resident_kib(master: &Master) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", master.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
