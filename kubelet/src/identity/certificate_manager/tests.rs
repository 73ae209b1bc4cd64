//! Waiting for the approval of a CSR, against a server that records the watches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Mutex;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use futures_util::{StreamExt as _, stream};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::options::Cluster;
use crate::report::Outbox;

/// What the server does with a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Watches {
    /// Approves the CSR and sends the event; the watch stays open.
    Approve,
    /// Ends it without an event.
    End,
}

/// A server with at most one CSR.
#[derive(Debug)]
struct Server {
    watches: Watches,
    csr: Mutex<Option<Value>>,
    /// The queries of all watches.
    watched: Mutex<Vec<String>>,
}

impl Server {
    async fn start(watches: Watches) -> (Arc<Self>, String) {
        let server = Arc::new(Self { watches, csr: Mutex::default(), watched: Mutex::default() });
        let own = server.clone();
        let answer = move |request| {
            let own = own.clone();
            async move { own.answer(request).await }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        (server, url)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let sent = to_bytes(body, 1 << 20).await.unwrap();
        let query = parts.uri.query().unwrap_or_default();
        let mut csr = self.csr.lock().unwrap();
        let json = |code: u16, value: &Value| {
            Response::builder().status(code).body(Body::from(value.to_string())).unwrap()
        };
        match (&parts.method, parts.uri.path() == PATH) {
            (&Method::POST, true) => {
                let mut sent: Value = serde_json::from_slice(&sent).unwrap();
                sent["metadata"]["resourceVersion"] = "7".into();
                *csr = Some(sent.clone());
                json(201, &sent)
            }
            (&Method::GET, true) => {
                self.watched.lock().unwrap().push(query.to_owned());
                if self.watches == Watches::End {
                    return Response::new(Body::empty());
                }
                let csr = csr.as_mut().unwrap();
                csr["metadata"]["resourceVersion"] = "8".into();
                csr["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
                let event = format!("{}\n", json!({"type": "MODIFIED", "object": csr}));
                let events = stream::iter([Ok::<_, std::io::Error>(Bytes::from(event))]);
                Response::new(Body::from_stream(events.chain(stream::pending())))
            }
            (&Method::GET, false) => match &*csr {
                Some(csr) => json(200, csr),
                None => json(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            },
            other => panic!("{other:?}"),
        }
    }

    fn watched(&self) -> Vec<String> {
        self.watched.lock().unwrap().clone()
    }
}

struct Node {
    _folder: tempfile::TempDir,
    manager: CertificateManager,
    access: ClusterAccess,
}

impl Node {
    fn of(server: String, credentials: Credentials) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster =
            Cluster { bootstrap: None, kubeconfig: folder.path().join("kubeconfig"), serving: false };
        let (cert_dir, addresses) = (folder.path().join("pki"), Box::new(Vec::new));
        let settings = Arc::new(Settings { node: "n1".to_owned(), cluster, cert_dir, addresses });
        let (certificate, client) = watch::channel(None);
        let (authorities, access) = (watch::channel(None).0, watch::channel(None).0);
        let shared = Arc::new(SharedState { authorities, access });
        let reporter = EventReporter::new("n1", Outbox::new());
        let manager =
            CertificateManager::new(&settings, Kind::Client, certificate, client, &shared, reporter);
        let authority = rcgen::generate_simple_self_signed(["n1".to_owned()]).unwrap().cert.pem();
        let access = ClusterAccess {
            servers: vec![server],
            authority: authority.into_bytes(),
            retiring: Vec::new(),
            former: Vec::new(),
            credentials,
        };
        Self { _folder: folder, manager, access }
    }

    /// Creates or reads the CSR, which must have no certificate yet.
    async fn pending(&mut self) -> PendingRequest {
        let wanted = CertificateRequest::client("system:node:n1".to_owned());
        match self.manager.request_certificate(self.access.clone(), &wanted, None).await.unwrap() {
            Step::Pending(pending) => pending,
            step => panic!("{step:?}"),
        }
    }

    /// Waits as the manager does after this number of polls. Returns the duration of the wait.
    async fn wait(&mut self, pending: PendingRequest, polls: u32) -> Duration {
        self.manager.polls = polls;
        let begun = Instant::now();
        self.manager.after(Step::Pending(pending), Timestamp::now()).await;
        begun.elapsed()
    }
}

fn token() -> Credentials {
    Credentials::Token("abcdef.0123456789abcdef".to_owned())
}

#[tokio::test]
async fn csr_approval_ends_the_wait_at_once() {
    let (server, url) = Server::start(Watches::Approve).await;
    let mut node = Node::of(url, token());
    let pending = node.pending().await;
    let name = pending.name.clone();
    // Most requests are approved before the second poll.
    node.wait(pending, 0).await;
    assert!(server.watched().is_empty(), "the first wait needs no watch");

    let pending = node.pending().await;
    let waited = node.wait(pending, 100).await;
    let poll = timing::csr_poll_delay(100, 0.0);
    assert!(waited < poll, "{waited:?} without a poll for {poll:?}");
    let [query] = &server.watched()[..] else { panic!("{:?}", server.watched()) };
    for part in [format!("fieldSelector=metadata.name%3D{name}"), "resourceVersion=7".to_owned()] {
        assert!(query.split('&').any(|given| given == part), "{part} is not in {query}");
    }
    // The watch triggers the next poll, which finds the approval.
    assert_eq!(node.pending().await.version, "8");
}

#[tokio::test]
async fn failing_watches_do_not_raise_the_poll_rate() {
    let (server, url) = Server::start(Watches::End).await;
    let mut node = Node::of(url, token());
    let pending = node.pending().await;
    let waited = node.wait(pending, 1).await;
    assert!(waited >= timing::csr_poll_delay(1, 0.0), "{waited:?}");
    assert_eq!(server.watched().len(), 1);
}

#[tokio::test]
async fn node_without_credentials_polls_its_csr() {
    let (server, url) = Server::start(Watches::Approve).await;
    let mut node = Node::of(url, Credentials::Anonymous);
    let pending = node.pending().await;
    node.wait(pending, 1).await;
    assert!(server.watched().is_empty(), "it must not watch: {:?}", server.watched());
}
