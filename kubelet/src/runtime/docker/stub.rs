//! A stub Docker engine for tests: it creates every container, and the test decides which starts succeed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::{Docker, Settings};

/// Error of runc if its child process dies early for any reason.
pub(super) const GENERIC: &str =
    "runc create failed: unable to start container process: can't get final child's PID from pipe: EOF";

/// Decides whether a container with this body starts; the error is the engine's message.
type Starts = Box<dyn Fn(&Value) -> Result<(), String> + Send>;

/// The stub engine.
#[derive(Clone)]
pub(super) struct Stub(Arc<Mutex<State>>);

struct State {
    containers: BTreeMap<String, Value>,
    starts: Starts,
    /// Requests whose path contains this text get no response.
    hangs: Option<String>,
}

impl Stub {
    /// Starts a stub that accepts all starts, and a client for it. The stub ends with the directory.
    pub async fn start() -> (Self, Docker, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("engine.sock");
        let state = State { containers: BTreeMap::new(), starts: Box::new(|_| Ok(())), hangs: None };
        let stub = Self(Arc::new(Mutex::new(state)));
        let own = stub.clone();
        let answer = move |request: Request<Body>| {
            let own = own.clone();
            async move { own.answer(request).await }
        };
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        let endpoint = format!("unix://{}", socket.display());
        let docker = Docker::connect(&endpoint, "n1", Settings::default()).unwrap();
        docker.client().await.unwrap();
        (stub, docker, directory)
    }

    /// Sets the decision about starts.
    pub fn starts(&self, starts: impl Fn(&Value) -> Result<(), String> + Send + 'static) {
        self.0.lock().unwrap().starts = Box::new(starts);
    }

    /// Makes requests hang whose path contains this text.
    pub fn hangs(&self, part: &str) {
        self.0.lock().unwrap().hangs = Some(part.to_owned());
    }

    async fn answer(&self, request: Request<Body>) -> (StatusCode, String) {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_hanging = self.0.lock().unwrap().hangs.as_ref().is_some_and(|part| uri.path().contains(part));
        if is_hanging {
            std::future::pending::<()>().await;
        }
        let (code, answer) = self.decide(&method, &uri, body);
        (
            StatusCode::from_u16(code).unwrap(),
            if answer.is_null() { String::new() } else { answer.to_string() },
        )
    }

    fn decide(&self, method: &Method, uri: &http::Uri, body: Value) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let path: Vec<&str> =
            uri.path().split('/').filter(|part| !part.is_empty() && !part.starts_with("v1.")).collect();
        let refused = |code: u16, message: &str| (code, json!({"message": message}));
        match (method, &path[..]) {
            (&Method::GET, ["version"]) => (200, json!({"Version": "28.0.0", "ApiVersion": "1.47"})),
            (&Method::POST, ["containers", "create"]) => {
                let name =
                    uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("name="));
                let name = name.unwrap_or_default().to_owned();
                if state.containers.contains_key(&name) {
                    return refused(409, &format!("the name /{name} is already in use by container {name}"));
                }
                state.containers.insert(name.clone(), body);
                (201, json!({"Id": name, "Warnings": []}))
            }
            (&Method::POST, ["containers", _, "exec"]) => (201, json!({"Id": "e"})),
            (&Method::POST, ["containers", id, "start"]) => match state.containers.get(*id) {
                Some(body) => match (state.starts)(body) {
                    Ok(()) => (204, Value::Null),
                    Err(message) => refused(400, &message),
                },
                None => refused(404, "no such container"),
            },
            (&Method::GET, ["containers", id, "json"]) => match state.containers.get(*id) {
                Some(body) => {
                    let mut config = body.clone();
                    let host = config["HostConfig"].take();
                    let shown = json!({"Id": id, "Name": format!("/{id}"), "Image": "sha256:1", "Config": config,
                        "HostConfig": host, "State": {"Status": "running", "Running": true, "StartedAt": "2026-01-01T00:00:00Z"}});
                    (200, shown)
                }
                None => refused(404, "no such container"),
            },
            (&Method::DELETE, ["containers", id]) => {
                state.containers.remove(*id);
                (204, Value::Null)
            }
            _ => refused(404, "not played"),
        }
    }
}
