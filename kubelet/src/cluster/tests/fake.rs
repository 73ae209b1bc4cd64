//! An API server that answers as it is told, and notes what it was asked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::identity::{Api, Known, Shows};

/// One that listens for as long as the test runs.
#[derive(Clone, Debug, Default)]
pub struct Fake(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    asked: Vec<(String, Value)>,
    answers: VecDeque<(u16, Value)>,
    always: Vec<(String, u16, Value)>,
}

impl Fake {
    /// One that says yes to everything, and a client of it.
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

    /// What it says next, before it says yes to everything again; without an answer it gives no more than the code.
    pub fn says(&self, code: u16, answer: Option<Value>) {
        let answer = answer.unwrap_or_else(|| json!({"message": format!("as told: {code}")}));
        self.0.lock().unwrap().answers.push_back((code, answer));
    }

    /// What it says to whatever has that in its path, until the end.
    pub fn always_says(&self, part: &str, code: u16, answer: Value) {
        self.0.lock().unwrap().always.push((part.to_owned(), code, answer));
    }

    /// What it was asked since this was asked last, `METHOD /path`.
    pub fn asked(&self) -> Vec<String> {
        self.asked_with().into_iter().map(|(line, _)| line).collect()
    }

    /// The same with what was sent.
    pub fn asked_with(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    async fn answer(&self, request: Request<Body>) -> (StatusCode, String) {
        let line = format!("{} {}", request.method(), request.uri());
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let mut state = self.0.lock().unwrap();
        let always = state.always.iter().find(|(part, ..)| line.contains(part));
        let always = always.map(|(_, code, answer)| (*code, answer.clone()));
        state.asked.push((line, serde_json::from_slice(&body).unwrap_or_default()));
        let (code, answer) = always.or_else(|| state.answers.pop_front()).unwrap_or((200, json!({})));
        (StatusCode::from_u16(code).unwrap(), answer.to_string())
    }
}

/// A client of nobody.
pub async fn nobody() -> Arc<Api> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    client(&format!("http://{address}"))
}

fn client(server: &str) -> Arc<Api> {
    Arc::new(Api::new(&known(server)).unwrap())
}

/// The way to a server.
pub fn known(server: &str) -> Known {
    let authority = rcgen::generate_simple_self_signed(["nobody".to_owned()]).unwrap().cert.pem();
    Known {
        servers: vec![server.to_owned()],
        authority: authority.into_bytes(),
        leaving: Vec::new(),
        before: Vec::new(),
        shows: Shows::Nothing,
    }
}
