//! Sends a steady load like that of users and controllers: gets, lists of a node's pods, patches, creates and
//! deletes of pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Method;
use tokio::task::JoinSet;

use crate::client::{Connection, Way};
use crate::drive::Request;
use crate::objects::{PODS, patch};
use crate::shared::numbers::share;

/// Requests per second.
const PACE: f64 = 100.0;
/// Number of clients. Each sends at its scheduled time, even when an earlier response is late.
const CLIENTS: usize = 20;
/// The sequence of requests that each client repeats.
const TURNS: [Operation; 10] = [
    Operation::Get,
    Operation::List,
    Operation::Patch,
    Operation::Create,
    Operation::Get,
    Operation::Get,
    Operation::List,
    Operation::Patch,
    Operation::Get,
    Operation::Delete,
];

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Get a pod.
    Get,
    /// List the pods of a node.
    List,
    /// Patch a permanent pod.
    Patch,
    /// Create a temporary pod.
    Create,
    /// Delete a temporary pod.
    Delete,
}

/// Latencies in milliseconds by kind of request, from the scheduled time of a request to its complete response.
#[derive(Default)]
pub struct Answers(BTreeMap<Operation, Vec<f64>>);

impl Answers {
    /// Latencies of all kinds.
    pub fn all(&self) -> Vec<f64> {
        self.0.values().flatten().copied().collect()
    }

    /// Returns the 99th percentile of the latency of each kind, as text.
    pub fn each(&self) -> String {
        let one = |(operation, times): (&Operation, &Vec<f64>)| {
            format!("{operation:?} {:.1}", share(times, 0.99)).to_lowercase()
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The objects that the requests read and change.
#[derive(Clone, Copy)]
pub struct Stock {
    /// Prefix of the node names, and the number of nodes.
    pub nodes: (&'static str, usize),
    /// Number of permanent pods, `pod-0` and so on.
    pub pods: usize,
    /// Builds a temporary pod with the given name.
    pub make: fn(&str) -> String,
}

/// Sends requests during the window. Returns their latencies.
pub async fn exchange(way: &Way, stock: Stock, window: Duration) -> Answers {
    let mut asking = JoinSet::new();
    let begun = Instant::now();
    for client in 0..CLIENTS {
        let connection = way.connect().await.unwrap();
        asking.spawn(Client { connection, client, stock, made: None }.exchange(begun, window));
    }
    let mut answers = Answers::default();
    for (operation, time) in asking.join_all().await.into_iter().flatten() {
        answers.0.entry(operation).or_default().push(time);
    }
    answers
}

struct Client {
    connection: Connection,
    client: usize,
    stock: Stock,
    made: Option<String>,
}

impl Client {
    async fn exchange(mut self, begun: Instant, window: Duration) -> Vec<(Operation, f64)> {
        let mut answers = Vec::new();
        for number in (self.client..).step_by(CLIENTS) {
            let due = begun + Duration::from_secs_f64(number as f64 / PACE);
            if due >= begun + window {
                break;
            }
            tokio::time::sleep_until(due.into()).await;
            let operation = TURNS[(number / CLIENTS + self.client) % TURNS.len()];
            let (operation, request) = self.request(operation, number);
            self.send(request).await;
            answers.push((operation, due.elapsed().as_secs_f64() * 1e3));
        }
        if let Some(request) = self.delete() {
            self.send(request).await;
        }
        answers
    }

    async fn send(&mut self, request: Request) {
        let answer = self.connection.exchange(request.method, &request.path, &request.body).await;
        let (code, body) = answer.unwrap();
        assert!(code == request.expected, "{} {code}: {}", request.path, String::from_utf8_lossy(&body));
    }

    /// Builds a request of the given kind. If no pod is left to delete, builds a request of another kind.
    fn request(&mut self, operation: Operation, number: usize) -> (Operation, Request) {
        let (node, nodes) = self.stock.nodes;
        // Consecutive requests concern objects that are not adjacent in the store.
        let spread = number.wrapping_mul(7919);
        let some_pod = format!("{PODS}/pod-{}", spread % self.stock.pods);
        let request = match operation {
            Operation::Get => Request::get(some_pod),
            Operation::List => {
                let node = format!("{node}{}", spread % nodes);
                Request::get(format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"))
            }
            Operation::Patch => {
                Request { method: Method::PATCH, path: some_pod, body: patch(number as u128), expected: 200 }
            }
            Operation::Create => {
                let name = format!("comes-{number}");
                let body = (self.stock.make)(&name);
                self.made = Some(name);
                Request { method: Method::POST, path: PODS.to_owned(), body, expected: 201 }
            }
            Operation::Delete => match self.delete() {
                Some(request) => request,
                None => return (Operation::Get, Request::get(some_pod)),
            },
        };
        (operation, request)
    }

    /// Builds the request that deletes the temporary pod created last.
    fn delete(&mut self) -> Option<Request> {
        let path = format!("{PODS}/{}", self.made.take()?);
        Some(Request { method: Method::DELETE, path, body: String::new(), expected: 200 })
    }
}
