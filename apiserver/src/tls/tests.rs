//! TLS over real sockets: identities, rejections, reloads and timeouts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::serve::{Ended, Refusals};
use super::{Config, Keys, UpgradedStream, config, serve, upgraded};
use crate::Identity;

/// Time limit, never reached.
const DEADLINE: Duration = Duration::from_secs(20);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn signed(
        &self,
        name: &str,
        group: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }

    fn server(&self) -> Arc<Config> {
        self.server_believing(&[self])
    }

    /// A server of this CA with these client CAs.
    fn server_believing(&self, authorities: &[&Self]) -> Arc<Config> {
        let (certificate, key) = self.signed("localhost", "", ExtendedKeyUsagePurpose::ServerAuth);
        let client_authorities = authorities.iter().map(|authority| authority.0.der().clone()).collect();
        config(Keys { chain: vec![certificate], key, client_authorities }).unwrap()
    }

    fn client(&self, own: Option<(&str, &str)>, protocol: &[u8]) -> ClientConfig {
        self.client_signed_by(self, own, protocol)
    }

    /// A client that trusts this CA, with a certificate signed by `signer`.
    fn client_signed_by(&self, signer: &Self, own: Option<(&str, &str)>, protocol: &[u8]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut client = match own {
            None => builder.with_no_client_auth(),
            Some((user, group)) => {
                let (certificate, key) = signer.signed(user, group, ExtendedKeyUsagePurpose::ClientAuth);
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        client.alpn_protocols = vec![protocol.to_vec()];
        client
    }
}

struct Bed {
    address: SocketAddr,
    swap: watch::Sender<Arc<Config>>,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
}

impl Bed {
    async fn new(authority: &Authority) -> Self {
        let who =
            |Extension(who): Extension<Identity>| async move { format!("{} {:?}", who.user, who.groups) };
        let router = Router::new()
            .route("/", get(who))
            .route("/echo", get(echo))
            .route("/relayed", get(relayed))
            .route("/endless", get(endless));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (swap, configured) = watch::channel(authority.server());
        let (stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(listener, router, configured, stopped));
        Self { address, swap, stop, served }
    }

    async fn connect(&self, client: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(client)).connect(name, stream).await
    }

    /// The user that the server sees, or the connection error.
    async fn who(&self, client: ClientConfig) -> Result<String, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let stream = self.connect(client).await.map_err(|error| text(&error))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let request = http::Request::get("https://localhost/")
            .header("host", "localhost")
            .body(Empty::<bytes::Bytes>::new())
            .unwrap();
        let response = if is_http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .map_err(|error| text(&error))?;
            tokio::spawn(connection);
            sender.send_request(request).await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| text(&error))?;
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        let body = response.map_err(|error| text(&error))?.into_body().collect().await.unwrap().to_bytes();
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }
}

/// Upgrades to an echo, like exec and port-forward.
async fn echo(mut request: axum::extract::Request) -> http::Response<axum::body::Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        tokio::io::copy(&mut reader, &mut writer).await
    });
    switched()
}

/// An echo over the downcast connection, like the node proxy.
async fn relayed(mut request: axum::extract::Request) -> http::Response<axum::body::Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let UpgradedStream { stream, revocation, .. } = upgraded(upgrade.await.unwrap()).unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        tokio::select! {
            _ = tokio::io::copy(&mut reader, &mut writer) => {}
            () = revocation.revoked() => {}
        }
    });
    switched()
}

fn switched() -> http::Response<axum::body::Body> {
    http::Response::builder()
        .status(101)
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(axum::body::Body::empty())
        .unwrap()
}

/// An endless body, like a watch.
async fn endless() -> axum::body::Body {
    let first = futures_util::stream::once(async { Ok::<_, std::io::Error>("begun") });
    axum::body::Body::from_stream(first.chain(futures_util::stream::pending()))
}

/// An upgraded connection.
async fn pipe(bed: &Bed, client: ClientConfig, path: &str) -> TokioIo<hyper::upgrade::Upgraded> {
    let stream = bed.connect(client).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = http::Request::get(path)
        .header("host", "localhost")
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 101);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

/// Whether the echo still works.
async fn echoes(pipe: &mut TokioIo<hyper::upgrade::Upgraded>) -> bool {
    let mut answer = [0; 5];
    pipe.write_all(b"hello").await.is_ok()
        && tokio::time::timeout(DEADLINE, pipe.read_exact(&mut answer)).await.unwrap().is_ok()
}

#[tokio::test]
async fn connection_can_be_upgraded() {
    let authority = Authority::new();
    let bed = Bed::new(&authority).await;
    for path in ["/echo", "/relayed"] {
        assert!(echoes(&mut pipe(&bed, authority.client(None, b"http/1.1"), path).await).await);
    }
}

#[tokio::test]
async fn connections_whose_client_ca_was_removed_are_closed_and_no_others() {
    let (authority, retired) = (Authority::new(), Authority::new());
    let bed = Bed::new(&authority).await;
    bed.swap.send_replace(authority.server_believing(&[&authority, &retired]));
    let request = |path: &str| {
        let request = http::Request::get(format!("https://localhost{path}")).header("host", "localhost");
        request.body(Empty::<bytes::Bytes>::new()).unwrap()
    };
    let jane = Some(("jane", "dev"));
    let clients = [
        (authority.client(jane, b"h2"), authority.client(jane, b"http/1.1"), true),
        (authority.client(None, b"h2"), authority.client(None, b"http/1.1"), true),
        (
            authority.client_signed_by(&retired, jane, b"h2"),
            authority.client_signed_by(&retired, jane, b"http/1.1"),
            false,
        ),
    ];
    let mut open = Vec::new();
    for (http2, http1, stays) in clients {
        let stream = TokioIo::new(bed.connect(http2).await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut watch = sender.send_request(request("/endless")).await.unwrap().into_body();
        assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "begun");
        let stream = TokioIo::new(bed.connect(http1.clone()).await.unwrap());
        let (mut idle, waits) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        let waits = tokio::spawn(waits);
        idle.send_request(request("/")).await.unwrap().into_body().collect().await.unwrap();
        let pipes = [pipe(&bed, http1.clone(), "/echo").await, pipe(&bed, http1, "/relayed").await];
        open.push((sender, watch, connection, idle, waits, pipes, stays));
    }
    bed.swap.send_replace(authority.server());
    // Waits for closed connections first, so that the others had time to close as well.
    open.sort_by_key(|(.., stays)| *stays);
    for (mut sender, mut watch, connection, mut idle, waits, pipes, stays) in open {
        if stays {
            assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200);
            assert_eq!(idle.send_request(request("/")).await.unwrap().status(), 200);
            assert!(!connection.is_finished());
            for mut pipe in pipes {
                assert!(echoes(&mut pipe).await);
            }
            continue;
        }
        let revocation = tokio::time::timeout(DEADLINE, watch.frame()).await.unwrap();
        assert!(revocation.is_none_or(|frame| frame.is_err()));
        let _ = tokio::time::timeout(DEADLINE, connection).await.expect("the connection of a watch ends");
        let _ = tokio::time::timeout(DEADLINE, waits).await.expect("one that nothing is asked over ends");
        for mut pipe in pipes {
            let ended =
                tokio::time::timeout(DEADLINE, pipe.read(&mut [0])).await.expect("a session is cut off");
            assert!(ended.is_ok_and(|bytes| bytes == 0) || !echoes(&mut pipe).await);
        }
        assert!(
            sender.send_request(request("/")).await.is_err()
                && idle.send_request(request("/")).await.is_err()
        );
    }
}

#[tokio::test]
async fn both_protocols_carry_the_identity_of_the_certificate() {
    let authority = Authority::new();
    let bed = Bed::new(&authority).await;
    for protocol in [b"h2".as_slice(), b"http/1.1"] {
        let seen = bed.who(authority.client(Some(("jane", "dev")), protocol)).await.unwrap();
        assert_eq!(seen, r#"jane ["dev", "system:authenticated"]"#);
        let seen = bed.who(authority.client(None, protocol)).await.unwrap();
        assert_eq!(seen, r#"system:anonymous ["system:unauthenticated"]"#);
    }
    let seen = bed.who(authority.client(Some(("jane", "dev")), b"spdy/3")).await;
    assert!(seen.is_err(), "neither protocol: {seen:?}");
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_rejected() {
    let (authority, other) = (Authority::new(), Authority::new());
    let bed = Bed::new(&authority).await;
    let mut stranger = authority.client(None, b"http/1.1");
    let (certificate, key) = other.signed("jane", "system:masters", ExtendedKeyUsagePurpose::ClientAuth);
    stranger.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(
        rustls::sign::CertifiedKey::from_der(
            vec![certificate],
            key,
            &rustls::crypto::ring::default_provider(),
        )
        .unwrap(),
    ));
    assert!(bed.who(stranger).await.is_err());
    assert!(bed.who(other.client(None, b"h2")).await.unwrap_err().contains("certificate"));
    assert!(bed.who(authority.client(None, b"h2")).await.is_ok());
}

#[tokio::test]
async fn clients_that_stall_in_the_handshake_do_not_block_others() {
    let authority = Authority::new();
    let bed = Bed::new(&authority).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        stream.write_all(&[0x16, 3, 1]).await.unwrap();
        silent.push(stream);
    }
    tokio::time::timeout(DEADLINE, bed.who(authority.client(None, b"h2"))).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn server_closes_connections_without_a_handshake() {
    let authority = Authority::new();
    let bed = Bed::new(&authority).await;
    let mut answer = Vec::new();
    // Neither a handshake nor a later request.
    let mut stream = TcpStream::connect(bed.address).await.unwrap();
    assert_eq!(stream.read_to_end(&mut answer).await.unwrap(), 0);
    let mut stream = bed.connect(authority.client(None, b"http/1.1")).await.unwrap();
    stream.write_all(b"GET / HT").await.unwrap();
    let _ = tokio::time::timeout(3 * DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
}

#[tokio::test]
async fn server_closes_connections_without_tls() {
    let bed = Bed::new(&Authority::new()).await;
    for text in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0\0\0\0\0\0\0\0"]
    {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
        assert!(read.is_err() || answer.first() != Some(&b'H'), "{text:?} was answered: {answer:?}");
    }
}

#[tokio::test]
async fn new_certificate_is_used_for_new_connections_only() {
    let (authority, other) = (Authority::new(), Authority::new());
    let bed = Bed::new(&authority).await;
    let stream = bed.connect(authority.client(None, b"http/1.1")).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<bytes::Bytes>>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = || http::Request::get("/").header("host", "localhost").body(Empty::new()).unwrap();
    sender.send_request(request()).await.unwrap().into_body().collect().await.unwrap();
    bed.swap.send_replace(other.server());
    assert!(bed.who(authority.client(None, b"h2")).await.is_err());
    assert!(bed.who(other.client(Some(("jane", "dev")), b"h2")).await.unwrap().starts_with("jane"));
    let again = sender.send_request(request()).await.unwrap();
    assert_eq!(again.status(), 200, "the old connection lives on");
}

#[tokio::test]
async fn after_shutdown_no_connection_is_accepted() {
    let authority = Authority::new();
    let bed = Bed::new(&authority).await;
    // An idle connection, one during the handshake, and one idle over HTTP/1.1.
    let _silent = TcpStream::connect(bed.address).await.unwrap();
    let _idle = bed.connect(authority.client(None, b"h2")).await.unwrap();
    let _other = bed.connect(authority.client(None, b"http/1.1")).await.unwrap();
    bed.stop.send_replace(true);
    tokio::time::timeout(DEADLINE, bed.served).await.unwrap().unwrap();
    assert!(TcpStream::connect(bed.address).await.is_err());
}

#[test]
fn a_rejected_client_certificate_is_recognized_and_logged_at_a_limited_rate() {
    let refused = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
    let of = |cause: rustls::Error| {
        Ended::of_handshake(&std::io::Error::new(std::io::ErrorKind::InvalidData, cause))
    };
    assert_eq!(of(refused), Ended::Refused("Expired".to_owned()));
    assert!(matches!(of(rustls::Error::DecryptError), Ended::Early(_)));
    let (refusals, now) = (Refusals::default(), std::time::Instant::now());
    let due = [0, 1, 9, 10, 11].map(|second| refusals.is_due(now + Duration::from_secs(second)));
    assert_eq!(due, [true, false, false, true, false]);
}
