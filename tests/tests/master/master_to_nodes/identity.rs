//! Mutual authentication of master and nodes with wrong certificates; both tables are printed.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tests::certificates::{EXPIRED, GOOD, Pair, Signer};
use tests::{DEADLINE, Port, free_port, installed, trusting, wait_until};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_rustls::TlsAcceptor;

use crate::master_to_nodes::bed::Cluster;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere";

/// A server at a node's port that counts its requests.
struct Somebody {
    port: Port,
    request_count: Arc<AtomicUsize>,
    _other: Option<Child>,
}

/// Answers one request.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, request_count: &AtomicUsize) {
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).await.unwrap_or(0);
    if request[..read].starts_with(b"GET ") {
        request_count.fetch_add(1, Ordering::SeqCst);
        let _ = stream.write_all(ANSWER).await;
    } else {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    }
}

impl Somebody {
    /// A server with that certificate, or without TLS.
    async fn with(pair: Option<&Pair>) -> Self {
        let acceptor = pair.map(|pair| TlsAcceptor::from(Arc::new(pair.server_config())));
        let (port, request_count) = (free_port(), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind(("127.0.0.1", port.number)).await.unwrap();
        let count = request_count.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), count.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => answer(stream, &count).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                answer(stream, &count).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, request_count, _other: None }
    }

    /// A server that supports TLS 1.1 at most.
    async fn old(cluster: &Cluster, pair: &Pair) -> Self {
        let (certificate, key) = (cluster.world.path("old.crt"), cluster.world.path("old.key"));
        fs::write(&certificate, &pair.certificate).unwrap();
        fs::write(&key, &pair.key).unwrap();
        let port = free_port();
        let mut command = Command::new(installed("openssl", "openssl"));
        command.args(["s_server", "-www", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0", "-accept"]);
        command.arg(format!("127.0.0.1:{port}")).arg("-cert").arg(certificate).arg("-key").arg(key);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let other = Some(command.spawn().unwrap());
        let look = async || {
            let connected = TcpStream::connect(("127.0.0.1", port.number)).await;
            connected.map(drop).map_err(|error| error.to_string())
        };
        wait_until(DEADLINE, look).await.unwrap();
        Self { port, request_count: Arc::default(), _other: other }
    }
}

#[tokio::test]
async fn master_connects_only_to_the_serving_certificate_of_the_node() {
    let cluster = Cluster::new("whose").await;
    let signer = &cluster.signer;
    let node = |name: &str| format!("/O=system:nodes/CN={name}");
    let server = |subject: &str, names: &str| signer.signs(subject, "serverAuth", names, GOOD);
    let here = "IP:127.0.0.1";
    let verify = "tls: failed to verify certificate: ";
    let stranger = Signer::stranger();
    let cases = [
        ("its own", Somebody::with(Some(&server(&node("kubelet:n0"), here))).await, ""),
        ("its own, stock", Somebody::with(Some(&server(&node("system:node:n1"), here))).await, ""),
        (
            "another node's",
            Somebody::with(Some(&server(&node("kubelet:other"), here))).await,
            "it belongs to \\\"kubelet:other\\\", not to the node \\\"n2\\\"",
        ),
        (
            "no node's",
            Somebody::with(Some(&server("/CN=kubelet:n3", here))).await,
            "it belongs to \\\"kubelet:n3\\\", not to the node \\\"n3\\\"",
        ),
        (
            "for another address",
            Somebody::with(Some(&server(&node("kubelet:n4"), "IP:127.0.0.2"))).await,
            "it is not valid for this address",
        ),
        (
            "a client's",
            Somebody::with(Some(&signer.signs(&node("kubelet:n5"), "clientAuth", here, GOOD))).await,
            verify,
        ),
        (
            "expired",
            Somebody::with(Some(&signer.signs(&node("kubelet:n6"), "serverAuth", here, EXPIRED))).await,
            "it has expired",
        ),
        (
            "other authority",
            Somebody::with(Some(&stranger.signs(&node("kubelet:n7"), "serverAuth", here, GOOD))).await,
            "it is signed by a CA of another cluster",
        ),
        ("plain HTTP", Somebody::with(None).await, "tls: the server does not speak TLS"),
        ("TLS 1.1", Somebody::old(&cluster, &server(&node("kubelet:n9"), here)).await, "tls: "),
    ];
    for (number, (what, impostor, words)) in cases.iter().enumerate() {
        let (node, pod) = (format!("n{number}"), format!("p{number}"));
        cluster.has_node(&node, impostor.port.number).await;
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        cluster.has_pod(&pod, spec, &json!({})).await;
        let path = format!("/api/v1/namespaces/default/pods/{pod}/log");
        let (code, text) = cluster.master.get_as_admin(&path).await;
        let request_count = impostor.request_count.load(Ordering::SeqCst);
        println!("{what:20} {code} asked {request_count} {text}");
        if words.is_empty() {
            assert_eq!((code, text.as_str(), request_count), (200, "here", 1), "{what}");
            continue;
        }
        assert_eq!((code, request_count), (500, 0), "{what}: {text}");
        assert!(text.contains(words), "{what}: {text}");
        let address = format!("127.0.0.1:{}", impostor.port);
        assert!(text.contains(&address) && text.contains("/containerLogs/default/"), "{what}: {text}");
    }
    // The certificate check may be skipped for logs, and for nothing else.
    let insecure = "/api/v1/namespaces/default/pods/p7/log?insecureSkipTLSVerifyBackend=true";
    assert_eq!(cluster.master.get_as_admin(insecure).await, (200, "here".to_owned()));
}

#[tokio::test]
async fn kubelet_api_accepts_only_masters() {
    let cluster = Cluster::new("masters").await;
    let port = &cluster.world.api_port;
    let root = cluster.master.admin().unwrap().authority;
    let send_request = async |own: Option<&Pair>, path: &str| {
        let own = own.map(|pair| (pair.certificate.as_str(), pair.key.as_str()));
        let client = trusting(&root, own).unwrap();
        match client.get(format!("https://127.0.0.1:{port}{path}")).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap()),
            Err(error) => (0, format!("{error:?}")),
        }
    };
    let client = |signer: &Signer, subject: &str, life| signer.signs(subject, "clientAuth", "DNS:x", life);
    let signer = &cluster.signer;
    let master = "/O=system:masters/CN=kube-apiserver-kubelet-client";
    let forbidden = |user: &str| {
        format!("Forbidden (user={user}, verb=get, resource=nodes, subresource(s)=[pods proxy])")
    };
    for (who, pair, code, words) in [
        ("a master", Some(client(signer, master, GOOD)), 200, "PodList".to_owned()),
        (
            "an administrator",
            Some(client(signer, "/O=system:masters/CN=admin", GOOD)),
            200,
            "PodList".to_owned(),
        ),
        ("nobody", None, 401, "Unauthorized".to_owned()),
        ("a person", Some(client(signer, "/CN=jane", GOOD)), 403, forbidden("jane")),
        (
            "the node itself",
            Some(client(signer, &format!("/O=system:nodes/CN=kubelet:{}", cluster.world.node), GOOD)),
            403,
            forbidden(&format!("kubelet:{}", cluster.world.node)),
        ),
        ("a server's certificate", Some(signer.signs(master, "serverAuth", "DNS:x", GOOD)), 0, String::new()),
        ("expired", Some(client(signer, master, EXPIRED)), 0, String::new()),
        ("other authority", Some(client(&Signer::stranger(), master, GOOD)), 0, String::new()),
    ] {
        let (found, text) = send_request(pair.as_ref(), "/pods").await;
        println!("{who:24} {found} {}", text.chars().take(120).collect::<String>());
        assert_eq!(found, code, "{who}: {text}");
        assert!(text.contains(&words), "{who}: {text}");
    }
    assert_eq!(send_request(None, "/healthz").await, (200, "ok".to_owned()), "all users may read the health");

    let mut plain = TcpStream::connect(("127.0.0.1", port.number)).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut received = Vec::new();
    let _ = plain.read_to_end(&mut received).await;
    assert!(!received.starts_with(b"HTTP"), "plain HTTP");
    for (version, works) in [("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)] {
        let mut command = Command::new(installed("openssl", "openssl"));
        command.args(["s_client", "-connect", &format!("127.0.0.1:{port}"), version]);
        command.args(["-cipher", "DEFAULT:@SECLEVEL=0"]).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap();
        println!("{version} {}", output.status);
        assert_eq!(output.status.success(), works, "{version}: {output:?}");
    }
}
