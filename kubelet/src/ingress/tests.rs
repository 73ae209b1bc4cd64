//! Tests of the proxy with endpoints and clients on the loopback.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::certificates::Certificates;
use super::listener::Server;
use super::proxy::Proxy;
use super::routes::Routes;
use crate::cluster::ingresses::{
    Backend, BackendPort, Ingress, IngressPath, IngressSnapshot, NamespacedName, PathType, Paths, Rule,
    ServiceBackend, Tls, TlsFiles,
};
use crate::cluster::services::{
    Endpoint, EndpointPort, EndpointSlice, Service, ServiceName, ServicePort, ServiceSnapshot,
};
use crate::metrics::{Metrics, Running};

/// Starts an endpoint that answers with its name, the path, the host and the client, and echoes bodies of `/echo`.
async fn endpoint(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(move |mut request: Request<Incoming>| async move {
                if request.headers().contains_key(header::UPGRADE) {
                    let upgraded = hyper::upgrade::on(&mut request);
                    tokio::spawn(async move {
                        let mut stream = TokioIo::new(upgraded.await.unwrap());
                        let mut word = [0; 4];
                        stream.read_exact(&mut word).await.unwrap();
                        stream.write_all(&word).await.unwrap();
                    });
                    let response = Response::builder().status(101).header("connection", "upgrade");
                    return Ok::<_, Infallible>(
                        response.header("upgrade", "echo").body(axum::body::Body::empty()).unwrap(),
                    );
                }
                if request.uri().path() == "/echo" {
                    return Ok(Response::new(axum::body::Body::new(request.into_body())));
                }
                let of =
                    |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
                let text = format!(
                    "{name} {} {} {} {}",
                    request.uri(),
                    of("host"),
                    of("x-forwarded-for"),
                    of("x-forwarded-proto")
                );
                Ok(Response::new(axum::body::Body::from(text)))
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection.with_upgrades());
        }
    });
    address
}

/// An Ingress of the host `a.example` with the Service `web`, and with a certificate.
fn snapshot() -> IngressSnapshot {
    let port = BackendPort { number: 80, ..BackendPort::default() };
    let backend = Backend { service: Some(ServiceBackend { name: "web".into(), port }) };
    let path = IngressPath { path: "/".into(), path_type: PathType::Prefix, backend };
    let rule = Rule { host: "a.example".into(), http: Paths { paths: vec![path] } };
    let tls = vec![Tls { hosts: vec!["a.example".into()], secret_name: "cert".into() }];
    let ingress = Ingress { rules: vec![rule], tls, ..Ingress::default() };
    let mut snapshot = IngressSnapshot { is_known: true, ..IngressSnapshot::default() };
    snapshot.ingresses.insert(NamespacedName::new("shop", "main"), Arc::new(ingress));
    snapshot
}

/// The Service `web` with one slice per endpoint.
fn services(endpoints: &[SocketAddr]) -> ServiceSnapshot {
    let mut services = ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() };
    let name = Arc::new(ServiceName::new("shop", "web"));
    let ports = vec![ServicePort { port: 80, ..ServicePort::default() }];
    services.services.insert(name.clone(), Arc::new(Service { ports, ..Service::default() }));
    let slice = |address: &SocketAddr| {
        let one = Endpoint { addresses: vec![address.ip()], is_ready: true, ..Endpoint::default() };
        Arc::new(EndpointSlice {
            name: address.to_string().into(),
            service: name.clone(),
            ports: vec![EndpointPort { port: address.port(), ..EndpointPort::default() }],
            endpoints: vec![one],
            has_other_proxy: false,
        })
    };
    services.endpoint_slices.insert(name.clone(), Arc::new(endpoints.iter().map(slice).collect()));
    services
}

/// A running proxy.
struct Fixture {
    proxy: Arc<Proxy>,
    metrics: Arc<Metrics>,
    http: SocketAddr,
    https: SocketAddr,
    certificates: Arc<Certificates>,
    stop: watch::Sender<bool>,
    ended: tokio::task::JoinHandle<()>,
}

async fn start(endpoints: &[SocketAddr]) -> Fixture {
    // The provider of the clients; another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let metrics = Arc::new(Metrics::new("n1", "v1.0.0"));
    let proxy = Arc::new(Proxy::new(metrics.clone()));
    let certificates = Arc::new(Certificates::new().unwrap());
    let (stop, stopped) = watch::channel(false);
    let permits = Arc::new(Semaphore::new(100));
    let (plain, tls) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (http, https) = (plain.local_addr().unwrap(), tls.local_addr().unwrap());
    let server = Server { proxy: proxy.clone(), tls: None, permits, stopped };
    let config = Some(certificates.config().unwrap());
    let secure = Server { tls: config, ..server.clone() };
    let ended = tokio::spawn(async move {
        tokio::join!(server.run(plain), secure.run(tls));
    });
    let fixture = Fixture { proxy, metrics, http, https, certificates, stop, ended };
    fixture.set(endpoints);
    fixture
}

impl Fixture {
    fn set(&self, endpoints: &[SocketAddr]) {
        self.proxy.set_routes(Routes::new(&snapshot(), &services(endpoints), 0));
    }

    /// Opens a client connection, and sends one request.
    async fn get(&self, host: &str, path: &str) -> (StatusCode, String) {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(TcpStream::connect(self.http).await.unwrap()))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header("host", host).body(Full::<Bytes>::default()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// An address at which nothing listens.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn requests_reach_endpoints_in_turn_and_failures_have_a_text() {
    let (one, two) = (endpoint("one").await, endpoint("two").await);
    let fixture = start(&[one, two]).await;
    let (status, text) = fixture.get("A.example:80", "/x?y=1").await;
    assert_eq!(status, 200);
    assert!(text.ends_with("/x?y=1 A.example:80 127.0.0.1 http"), "{text}");
    let first = |text: &str| text.split(' ').next().unwrap().to_owned();
    let (_, other) = fixture.get("a.example", "/").await;
    assert_ne!(first(&text), first(&other));
    let (status, text) = fixture.get("b.example", "/").await;
    assert_eq!((status.as_u16(), &*text), (404, "no Ingress has a rule for this host and path\n"));
    assert_eq!(fixture.get("a@b", "/").await.0, 400);
    fixture.set(&[]);
    assert_eq!(fixture.get("a.example", "/").await.0, 503);
    fixture.set(&[closed().await]);
    assert_eq!(fixture.get("a.example", "/").await.0, 502);
    let text = fixture.metrics.text(Running::default());
    for line in [
        r#"kubelet_ingress_requests_total{namespace="shop",ingress="main",code="2xx"} 2"#,
        r#"kubelet_ingress_requests_total{namespace="shop",ingress="main",code="5xx"} 2"#,
        r#"kubelet_ingress_requests_total{namespace="",ingress="",code="4xx"} 2"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn a_body_goes_to_another_endpoint_if_the_connection_failed() {
    let fixture = start(&[closed().await, endpoint("one").await]).await;
    let client = reqwest::Client::builder().resolve("a.example", fixture.http).build().unwrap();
    let url = format!("http://a.example:{}/echo", fixture.http.port());
    let large = vec![7; 4 << 20];
    for _ in 0..4 {
        let answer = client.post(&url).body(large.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.bytes().await.unwrap(), large);
    }
}

#[tokio::test]
async fn an_upgraded_connection_is_forwarded_both_ways() {
    let fixture = start(&[endpoint("one").await]).await;
    let mut stream = TcpStream::connect(fixture.http).await.unwrap();
    let request = "GET /ws HTTP/1.1\r\nhost: a.example\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo"), "{head}");
    stream.write_all(b"ping").await.unwrap();
    let mut word = [0; 4];
    stream.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"ping");
}

#[tokio::test]
async fn no_request_fails_while_routes_change_and_endpoints_leave() {
    let all = [endpoint("one").await, endpoint("two").await, endpoint("three").await];
    let fixture = Arc::new(start(&all).await);
    let (done, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (fixture, done, count) = (fixture.clone(), done.clone(), count.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(fixture.get("a.example", "/").await.0, 200);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..50 {
        let gone = closed().await;
        fixture.set(&[all[round % 3], gone]);
        while count.load(Ordering::Relaxed) < 8 * round {
            assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished), "a request failed");
            tokio::task::yield_now().await;
        }
    }
    done.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

/// A CA certificate and a certificate of a host.
fn certificate() -> (reqwest::Certificate, TlsFiles) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let ca = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    (ca, TlsFiles { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
}

#[tokio::test]
async fn https_uses_the_certificate_of_the_host_http_2_and_new_certificates() {
    let fixture = start(&[endpoint("one").await]).await;
    let url = format!("https://a.example:{}/", fixture.https.port());
    let client = |ca| {
        let builder = reqwest::Client::builder().tls_certs_only([ca]);
        builder.resolve("a.example", fixture.https).build().unwrap()
    };
    let (ca, files) = certificate();
    let first = client(ca.clone());
    assert!(first.get(&url).send().await.is_err(), "the default certificate is not trusted");
    let set = |files| {
        let mut snapshot = snapshot();
        snapshot.certificates.insert(NamespacedName::new("shop", "cert"), Arc::new(files));
        assert!(fixture.certificates.set(&snapshot).is_empty());
    };
    set(files);
    let answer = first.get(&url).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    assert!(answer.text().await.unwrap().ends_with(" 127.0.0.1 https"));
    let (new_ca, files) = certificate();
    set(files);
    assert_eq!(first.get(&url).send().await.unwrap().status(), 200, "its connection continues");
    assert!(client(ca).get(&url).send().await.is_err(), "new connections get the new certificate");
    assert_eq!(client(new_ca).get(&url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stop_closes_the_port_and_lets_requests_in_progress_end() {
    let fixture = start(&[endpoint("one").await]).await;
    let mut stream = TcpStream::connect(fixture.http).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: a.example\r\ncontent-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"pi").await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    fixture.stop.send_replace(true);
    while TcpStream::connect(fixture.http).await.is_ok() {
        tokio::task::yield_now().await;
    }
    stream.write_all(b"ng").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("ping"), "{rest}");
    fixture.ended.await.unwrap();
}
