//! A kubelet's API with one pod behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::health::Health;
use crate::metrics::Metrics;
use crate::observed::PodUid;
use crate::report::{Mail, Report};
use crate::runtime::contract::identity;
use crate::runtime::fake::Fake;
use crate::server::{Context, RootDir, VERSION, serve_socket};
use crate::stats::Meter;
use crate::status::Board;

/// How long anything may take.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub struct Bed {
    pub fake: Fake,
    pub health: Arc<Health>,
    pub dir: TempDir,
    /// The engine id of container `c` of pod `shop/web`, which says `one`, `two`, and runs on.
    pub id: String,
    _stop: watch::Sender<bool>,
}

impl Bed {
    pub async fn new() -> Self {
        Self::idle_after(Duration::from_secs(4 * 60 * 60)).await
    }

    /// One whose sessions end when nothing moves for so long.
    pub async fn idle_after(streaming_idle: Duration) -> Self {
        let fake = Fake::new("n1");
        let id = fake.bench().running("web", "echo one; echo two; while").await.id;
        let board = Board::new("n1");
        board.post(pod(&id), Timestamp::now());
        let health = Health::new();
        let context = Context {
            board,
            runtime: Arc::new(fake.clone()),
            health: health.clone(),
            metrics: Arc::new(Metrics::new("n1", VERSION.git_version)),
            stats: Meter::new("n1", "/".as_ref(), Box::new(Vec::new)),
            configuration: Arc::new(json!({"maxPods": 110})),
            streaming_idle,
        };
        let dir = tempfile::tempdir().unwrap();
        let (stop, stopped) = watch::channel(false);
        let root_dir = RootDir::take(dir.path()).unwrap();
        tokio::spawn(async move { serve_socket(&root_dir, &context, stopped).await.unwrap() });
        Self { fake, health, dir, id, _stop: stop }
    }

    /// A connection to the socket.
    pub async fn connect(&self) -> UnixStream {
        let socket = self.dir.path().join("kubelet.sock");
        let connected = async {
            loop {
                if let Ok(stream) = UnixStream::connect(&socket).await {
                    return stream;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, connected).await.unwrap()
    }

    /// The answer to a GET, its body still to come.
    pub async fn get(&self, path: &str) -> Response<Incoming> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, "x").body(Empty::<Bytes>::new()).unwrap();
        tokio::time::timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap()
    }

    /// Code and body of the answer to a GET.
    pub async fn text(&self, path: &str) -> (u16, String) {
        let answer = self.get(path).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Code and message of an answer that says no.
    pub async fn refusal(&self, path: &str) -> (u16, String) {
        let (code, body) = self.text(path).await;
        let status: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert_eq!(status["kind"], "Status", "{path}");
        (code, status["message"].as_str().unwrap().to_owned())
    }

    /// A WebSocket, and the protocol that was agreed on; the code of a refusal.
    pub async fn websocket(
        &self,
        path: &str,
        protocols: &'static str,
    ) -> Result<(WebSocketStream<UnixStream>, String), u16> {
        let mut request = format!("ws://x{path}").into_client_request().unwrap();
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
        match tokio_tungstenite::client_async(request, self.connect().await).await {
            Ok((socket, answer)) => {
                let agreed = answer.headers()[header::SEC_WEBSOCKET_PROTOCOL].to_str().unwrap();
                Ok((socket, agreed.to_owned()))
            }
            Err(WsError::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A frame of a channel.
pub fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut frame = vec![channel];
    frame.extend_from_slice(bytes);
    Message::Binary(frame.into())
}

fn pod(id: &str) -> Mail {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": identity("web", "c").uid.as_str()},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
    });
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
         "containerID": format!("docker://{id}"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        {"name": "d", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
         "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]});
    let report = Report::Status {
        pod: Arc::new(serde_json::from_value(pod).unwrap()),
        status: Arc::new(serde_json::from_value(status).unwrap()),
        deletion: None,
    };
    Mail { reports: BTreeMap::from([(PodUid::new("u1"), report)]), ..Mail::default() }
}
