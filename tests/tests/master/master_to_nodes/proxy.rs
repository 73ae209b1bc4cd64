//! Proxy to pods and services: with every kubectl, `kubectl proxy` and the Python client, with any method, and with
//! upgraded connections.

use std::fs;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tests::manifest::{container, pod};
use tests::{DEADLINE, Python, kubectls, tls_config, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::master_to_nodes::bed::Cluster;

const MERGE: &str = "application/merge-patch+json";

/// Sends requests with and without a path.
const SCRIPT: &str = r#"
import sys
from kubernetes import client, config

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
name = "http:" + sys.argv[2] + ":8080"
print("path", api.connect_get_namespaced_pod_proxy_with_path(name, "default", "f"))
print("none", api.connect_get_namespaced_pod_proxy(name, "default"))
print("service", api.connect_get_namespaced_service_proxy_with_path("web:http", "default", "f"))
"#;

/// Creates a service `web` for a pod and waits for its endpoint.
async fn has_service(cluster: &Cluster, pod: &str) {
    let label = json!({"metadata": {"labels": {"app": "web"}}});
    let path = format!("/api/v1/namespaces/default/pods/{pod}");
    assert_eq!(cluster.sends("PATCH", &path, MERGE, &label).await.0, 200);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    let made =
        cluster.sends("POST", "/api/v1/namespaces/default/services", "application/json", &service).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let look = async || match cluster
        .master
        .get_as_admin("/api/v1/namespaces/default/services/web:http/proxy/")
        .await
    {
        (200, _) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait_until(DEADLINE, look).await.unwrap();
}

#[tokio::test]
async fn master_proxies_requests_to_pods_and_services() {
    let cluster = Cluster::new("proxy").await;
    let serve = "mkdir -p /www/dir; echo from the pod >/www/f; echo the index >/www/index.html; echo below >/www/dir/index.html; \
                 trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    let ready = "readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/f']}, periodSeconds: 1}";
    let manifest = pod("web", &format!("containers:\n- {}", container("main", serve, ready)));
    let name = cluster.runs("web", &manifest).await;
    has_service(&cluster, &name).await;
    let below = "/api/v1/namespaces/default";
    let all = kubectls();
    for kubectl in &all {
        for path in [format!("pods/http:{name}:8080/proxy/f"), "services/http:web:80/proxy/f".to_owned()] {
            let output = cluster.kubectl(kubectl, &["get", "--raw", &format!("{below}/{path}")]).await;
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (0, "from the pod\n"),
                "1.{}: {output:?}",
                kubectl.minor
            );
        }
    }
    let newest = all.last().unwrap();
    let refused_port =
        cluster.kubectl(newest, &["get", "--raw", &format!("{below}/pods/{name}:9/proxy/")]).await;
    assert!(refused_port.stderr.contains("error trying to reach service: dial tcp "), "{refused_port:?}");
    assert!(refused_port.stderr.contains("connect: connection refused"), "{refused_port:?}");

    let client = cluster.master.client();
    // As a browser: without the final slash, following the server's redirect.
    let mut proxy = cluster.begins(newest, &["proxy", "--port=0"]);
    let line = proxy.prints("Starting to serve on ").await;
    let at = line.rsplit(' ').next().unwrap();
    for (path, expected) in [("proxy", "the index\n"), ("proxy/dir", "below\n")] {
        let url = format!("http://{at}{below}/pods/http:{name}:8080/{path}");
        let answer = client.get(url).send().await.unwrap();
        let ended = answer.url().path().to_owned();
        assert!(ended.ends_with(&format!("{path}/")), "{ended}");
        assert_eq!(answer.text().await.unwrap(), expected, "{path}");
    }

    let python = Python::new();
    fs::write(python.home().join("proxy.py"), SCRIPT).unwrap();
    let mut command = python.command("python");
    command.arg("proxy.py").arg(cluster.admin()).arg(&name);
    let output = python.run(command, DEADLINE + Duration::from_secs(30)).await;
    for line in ["path b'from the pod", "none b'the index", "service b'from the pod"] {
        assert!(output.stdout.contains(line), "{line:?}: {output:?}");
    }

    // RBAC checks the verb of the HTTP method on the subresource, not on the pod.
    let role = ["create", "role", "reader", "--verb=get", "--resource=pods,pods/proxy"];
    let binding = ["create", "rolebinding", "reader", "--role=reader", "--user=jane"];
    for arguments in [&role[..], &binding] {
        assert_eq!(cluster.kubectl(newest, arguments).await.code, 0);
    }
    let jane = cluster.master.user("jane", &[]).await;
    let path = format!("{below}/pods/{name}:8080/proxy/f");
    let read = cluster.master.kubectl_at(&newest.path, &jane, &["get", "--raw", &path]).await;
    assert_eq!(read.stdout, "from the pod\n", "{read:?}");
    let written =
        cluster.master.kubectl_at(&newest.path, &jane, &["create", "--raw", &path, "-f", "/dev/null"]).await;
    assert!(written.stderr.contains("cannot create resource \"pods/proxy\""), "{written:?}");

    let (_, list) = cluster.master.get_as_admin("/api/v1").await;
    let list: Value = serde_json::from_str(&list).unwrap();
    for (part, kind) in [("pods", "Pod"), ("services", "Service"), ("nodes", "Node")] {
        let rows = list["resources"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == format!("{part}/proxy")).unwrap();
        assert_eq!(row["kind"], format!("{kind}ProxyOptions"));
        assert_eq!(row["verbs"], json!(["create", "delete", "get", "patch", "update"]));
    }
}

/// A server at a pod's address: returns the request, or echoes data after a protocol switch.
struct Echo {
    host: String,
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    /// Listens on a non-loopback address of this machine, from which the pod network is reachable.
    async fn new() -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Sends nothing: `connect` on a UDP socket only selects the route.
        socket.connect("172.17.0.2:9").unwrap();
        let host = socket.local_addr().unwrap().ip().to_string();
        let listener = TcpListener::bind((host.as_str(), 0)).await.unwrap();
        let (port, heads) = (listener.local_addr().unwrap().port(), Arc::default());
        let seen_heads: Arc<Mutex<Vec<String>>> = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, seen_heads.clone()));
            }
        });
        Self { host, port, heads }
    }

    fn head(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

async fn answer(stream: TcpStream, heads: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap_or(0) > 0 {}
    let head = head.to_lowercase();
    heads.lock().unwrap().push(head.clone());
    if head.contains("upgrade: chat") {
        let switched =
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\nhello ";
        stream.write_all(switched).await.unwrap();
        // Reads until the other side closes, then sends a last message.
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        stream.write_all(&received).await.unwrap();
        return;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    let _ = stream
        .write_all(
            b"HTTP/1.1 207 Multi\r\nlocation: http://elsewhere.example/\r\nset-cookie: a=b\r\nstrict-transport-security: max-age=9\r\n\
              access-control-allow-origin: *\r\nconnection: close\r\n\r\ngot ",
        )
        .await;
    let _ = stream.write_all(&body).await;
}

#[tokio::test]
async fn proxy_forwards_all_methods_and_protocols_but_no_credentials() {
    let cluster = Cluster::new("methods").await;
    let echo = Echo::new().await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    cluster.has_pod("echo", spec, &json!({"podIP": echo.host, "podIPs": [{"ip": echo.host}]})).await;
    let path = format!("/api/v1/namespaces/default/pods/echo:{}/proxy/a%2Fb/c//?x=%20y&x", echo.port);
    let url = format!("https://127.0.0.1:{}{path}", cluster.master.port);
    let client = cluster.master.client();
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let request = client.request(method.parse().unwrap(), &url).body("body");
        let request = request
            .header("cookie", "own=1")
            .header("x-remote-user", "root")
            .header("x-forwarded-for", "1.2.3.4");
        let answer = request.header("accept", "text/x").send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 207, "{method}");
        let headers = answer.headers().clone();
        let has = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((has("location"), has("set-cookie")), (Some("http://elsewhere.example/"), Some("a=b")));
        assert_eq!((has("strict-transport-security"), has("access-control-allow-origin")), (None, None));
        assert_eq!(answer.text().await.unwrap(), "got body", "{method}");
        let head = echo.head();
        assert!(
            head.starts_with(&format!("{} /a%2fb/c//?x=%20y&x http/1.1\r\n", method.to_lowercase())),
            "{head}"
        );
        for line in ["cookie: own=1", "accept: text/x", "x-forwarded-for: 127.0.0.1"] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
        }
        let came_by = path.split('?').next().unwrap().to_lowercase();
        assert!(head.contains(&format!("\r\nx-forwarded-uri: {came_by}\r\n")), "{head}");
        assert!(!head.contains("x-remote") && !head.contains("authorization"), "{head}");
    }

    // Another protocol, with data in the first packet, and with a half-closed connection.
    let admin = cluster.master.admin().unwrap();
    let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
    let config = tls_config(&admin.authority, Some(own)).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", cluster.master.port.number)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    let token = "sec-websocket-protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0, v1";
    let request_text = format!(
        "GET {path} HTTP/1.1\r\nhost: master\r\nconnection: Upgrade\r\nupgrade: chat\r\n{token}\r\n\r\nfirst "
    );
    stream.write_all(request_text.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"hello ") {
        assert_ne!(
            stream.read_buf(&mut received).await.unwrap(),
            0,
            "{}",
            String::from_utf8_lossy(&received)
        );
    }
    assert!(received.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&received));
    let much = "x".repeat(1 << 20);
    stream.write_all(much.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest == format!("first {much}"), "{} bytes", rest.len());
    let head = echo.head();
    assert!(head.contains("\r\nsec-websocket-protocol: v1\r\n") && !head.contains("bearer"), "{head}");
    assert!(head.contains("\r\nhost: master\r\n"), "{head}");

    // Addresses that are not pod addresses are rejected, even if a server listens there.
    for address in ["127.0.0.1", "169.254.169.254", "::1"] {
        let patch = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
        let path = "/api/v1/namespaces/default/pods/echo/status";
        assert_eq!(cluster.sends("PATCH", path, MERGE, &patch).await.0, 200);
        let path = format!("/api/v1/namespaces/default/pods/echo:{}/proxy/", cluster.master.port);
        let (code, text) = cluster.master.get_as_admin(&path).await;
        assert!(code == 400 && text.contains("address not allowed"), "{address}: {code} {text}");
    }
}
