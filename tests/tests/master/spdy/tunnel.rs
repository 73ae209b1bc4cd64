//! Ports of a kubelet that speaks only SPDY, forwarded through the master: kubectl since 1.31 tunnels SPDY through a
//! WebSocket, which ends at the master.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tests::certificates::Signer;
use tests::{DEADLINE, Master, kubectls, wait_until};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::spdy::forwards;
use crate::spdy::node::Node;

/// Name of the Node object.
const NODE: &str = "spdy";

/// Accepts TLS with the node's certificate, and passes the bytes to the plain server.
async fn with_tls(plain: SocketAddr, signer: &Signer) -> SocketAddr {
    let acceptor = TlsAcceptor::from(Arc::new(signer.signs_node(NODE).server_config()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut node = TcpStream::connect(plain).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut node).await;
            });
        }
    });
    address
}

/// Creates an object with that status.
async fn create(master: &Master, path: &str, object: &Value, status: Value) {
    let (client, url) = (master.client(), master.url(path));
    let look = async || match client.post(&url).json(object).send().await.unwrap() {
        made if made.status() == 201 => Ok(()),
        // The namespace's service account may not exist yet.
        made => Err(format!("{made:?}")),
    };
    wait_until(DEADLINE, look).await.unwrap();
    let url = format!("{url}/{}/status", object["metadata"]["name"].as_str().unwrap());
    let patch = client.patch(url).header("content-type", "application/merge-patch+json");
    let patched = patch.body(json!({"status": status}).to_string()).send().await.unwrap();
    assert_eq!(patched.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_master_tunnels_spdy_to_a_kubelet_without_websockets() {
    let (master, mut node) = (Master::running().await, Node::tiny().await);
    let port = with_tls(node.address, &Signer::of_master(&master.data_dir())).await.port();
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    });
    create(&master, "/api/v1/nodes", &json!({"metadata": {"name": NODE}}), status).await;
    let spec = json!({"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "web"}, "spec": spec});
    create(&master, "/api/v1/namespaces/default/pods", &pod, json!({"phase": "Running"})).await;
    node.kubeconfig = Some(master.data_dir().join("admin.kubeconfig"));
    let found = kubectls();
    assert!(found.iter().any(|kubectl| kubectl.minor > 30), "no kubectl is new enough: {found:?}");
    for kubectl in found {
        forwards(&node, &kubectl).await;
        // A kubectl whose WebSocket was refused falls back to SPDY.
        assert_eq!(node.refused(), 0, "1.{}: the node got a WebSocket", kubectl.minor);
    }
}
