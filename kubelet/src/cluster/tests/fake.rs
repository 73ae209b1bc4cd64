//! A fake API server with scripted responses. It records its requests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::identity::{Api, ClusterAccess, Credentials};

/// The fake server. It listens until the test ends.
#[derive(Clone, Debug, Default)]
pub struct Fake(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    requests: Vec<(String, Value)>,
    answers: VecDeque<(u16, Value)>,
    always: Vec<(String, u16, Value)>,
}

impl Fake {
    /// Starts a server that answers every request with 200, and a client of it.
    pub async fn start() -> (Self, Arc<Api>) {
        let fake = Self::default();
        let own = fake.clone();
        let answer = move |request: Request<Body>| {
            let own = own.clone();
            async move { own.answer(request).await }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        (fake, client(&format!("http://{address}")))
    }

    /// Adds a response for the next request; without a body, the message contains the code.
    pub fn respond(&self, code: u16, answer: Option<Value>) {
        let answer = answer.unwrap_or_else(|| json!({"message": format!("by the test: {code}")}));
        self.0.lock().unwrap().answers.push_back((code, answer));
    }

    /// Sets a permanent response for all paths that contain `part`.
    pub fn always_respond(&self, part: &str, code: u16, answer: Value) {
        self.0.lock().unwrap().always.push((part.to_owned(), code, answer));
    }

    /// The requests since the last call, as `METHOD /path`.
    pub fn requests(&self) -> Vec<String> {
        self.requests_with_bodies().into_iter().map(|(line, _)| line).collect()
    }

    /// The same with the request bodies.
    pub fn requests_with_bodies(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }

    async fn answer(&self, request: Request<Body>) -> (StatusCode, String) {
        let line = format!("{} {}", request.method(), request.uri());
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let mut state = self.0.lock().unwrap();
        let always = state.always.iter().find(|(part, ..)| line.contains(part));
        let always = always.map(|(_, code, answer)| (*code, answer.clone()));
        state.requests.push((line, serde_json::from_slice(&body).unwrap_or_default()));
        let (code, answer) = always.or_else(|| state.answers.pop_front()).unwrap_or((200, json!({})));
        (StatusCode::from_u16(code).unwrap(), answer.to_string())
    }
}

/// A client of a port that nothing listens on.
pub async fn unreachable_api() -> Arc<Api> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    client(&format!("http://{address}"))
}

/// A client of the server at this URL.
pub fn client(server: &str) -> Arc<Api> {
    Arc::new(Api::new(&known(server)).unwrap())
}

/// Access to the server at this URL.
pub fn known(server: &str) -> ClusterAccess {
    let authority = rcgen::generate_simple_self_signed(["nobody".to_owned()]).unwrap().cert.pem();
    ClusterAccess {
        servers: vec![server.to_owned()],
        authority: authority.into_bytes(),
        retiring: Vec::new(),
        former: Vec::new(),
        credentials: Credentials::Anonymous,
    }
}
