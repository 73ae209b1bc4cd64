//! Test bed: a kubelet server with one pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Api, VERSION};
use bytes::Bytes;
use futures_util::StreamExt as _;
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
use crate::runtime::{LogOptions, Runtime as _};
use crate::server::{Context, RootDir, serve_socket};
use crate::stats::StatsProvider;
use crate::status::{StatusManager, resources};
use crate::volumes::Volumes;

/// Timeout of all operations.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub struct Bed {
    pub fake: Fake,
    pub health: Arc<Health>,
    pub dir: TempDir,
    /// Engine id of container `c` of pod `shop/web`, which prints `one` and `two` and keeps running.
    pub id: String,
    _stop: watch::Sender<bool>,
}

impl Bed {
    pub async fn new() -> Self {
        Self::idle_after(Duration::from_secs(4 * 60 * 60)).await
    }

    /// A test bed with this idle timeout.
    pub async fn idle_after(streaming_idle: Duration) -> Self {
        let fake = Fake::new("n1");
        let id = fake.bench().running("web", "echo one; echo two; while").await.id;
        let status_manager = StatusManager::new("n1");
        status_manager.apply(pod(&id), Timestamp::now());
        let health = Health::new();
        let dir = tempfile::tempdir().unwrap();
        let api = Api::new(status_manager.store().clone(), resources::catalog(), VERSION);
        let context = Context {
            status_manager,
            api,
            runtime: Arc::new(fake.clone()),
            health: health.clone(),
            metrics: Arc::new(Metrics::new("n1", VERSION.git_version)),
            stats: StatsProvider::new("n1", "/".as_ref(), Box::new(Vec::new)),
            configuration: Arc::new(json!({"maxPods": 110})),
            volumes: Arc::new(Volumes::new(dir.path())),
            streaming_idle,
        };
        let (stop, stopped) = watch::channel(false);
        let root_dir = RootDir::take(dir.path()).unwrap();
        tokio::spawn(async move { serve_socket(&root_dir, &context, stopped).await.unwrap() });
        Self { fake, health, dir, id, _stop: stop }
    }

    /// Waits until the container's log contains both lines.
    pub async fn receives_both_lines(&self) {
        let written = async {
            loop {
                let log = self.fake.logs(&self.id, &LogOptions::default()).await.unwrap();
                if log.count().await == 2 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, written).await.unwrap();
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

    /// The response to a GET request, without its body.
    pub async fn get(&self, path: &str) -> Response<Incoming> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, "x").body(Empty::<Bytes>::new()).unwrap();
        tokio::time::timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap()
    }

    /// Status code and body of the response to a GET request.
    pub async fn text(&self, path: &str) -> (u16, String) {
        let answer = self.get(path).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Status code and message of an error response.
    pub async fn refusal(&self, path: &str) -> (u16, String) {
        let (code, body) = self.text(path).await;
        let status: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert_eq!(status["kind"], "Status", "{path}");
        (code, status["message"].as_str().unwrap().to_owned())
    }

    /// A WebSocket and its subprotocol, or the status code of the rejection.
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
