//! Runs many clients that repeat one kind of request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;

use crate::client::Way;
use crate::objects::{PODS, node, pod};

/// A request (method, path and body) and the expected status code of its response.
pub struct Request {
    pub method: Method,
    pub path: String,
    pub body: String,
    pub expected: u16,
}

impl Request {
    /// Creates a GET request.
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: String::new(), expected: 200 }
    }
}

/// Runs this many clients during the window, and returns the requests per second that they reach. `make` builds the
/// request with a given number.
pub async fn rate(
    way: &Way,
    clients: usize,
    window: Duration,
    make: impl Fn(usize) -> Request + Send + Sync + 'static,
) -> f64 {
    let begun = Instant::now();
    let done = run(way, clients, usize::MAX, move || begun.elapsed() < window, make).await;
    done as f64 / begun.elapsed().as_secs_f64()
}

/// Creates the pods with the given numbers. Returns how many it creates per second.
pub async fn fill(way: &Way, pods: std::ops::Range<usize>, nodes: usize) -> f64 {
    /// Number of clients. Some of them always have work while others wait for the disk.
    const CLIENTS: usize = 32;

    let (begun, first, count) = (Instant::now(), pods.start, pods.len());
    run(way, CLIENTS, count, || true, move |number| create(first + number, nodes)).await;
    count as f64 / begun.elapsed().as_secs_f64()
}

pub async fn fill_nodes(way: &Way, nodes: usize) {
    let make = |number| Request {
        method: Method::POST,
        path: "/api/v1/nodes".to_owned(),
        body: node(number),
        expected: 201,
    };
    run(way, 16, nodes, || true, make).await;
}

/// The request that creates a pod.
pub fn create(number: usize, nodes: usize) -> Request {
    Request { method: Method::POST, path: PODS.to_owned(), body: pod(number, nodes), expected: 201 }
}

/// Sends the requests with numbers below `most` while `goes_on` returns true. Returns how many it sent.
pub async fn run(
    way: &Way,
    clients: usize,
    most: usize,
    goes_on: impl Fn() -> bool + Clone + Send + 'static,
    make: impl Fn(usize) -> Request + Send + Sync + 'static,
) -> usize {
    let (next, make) = (Arc::new(AtomicUsize::new(0)), Arc::new(make));
    let mut running = Vec::new();
    for _ in 0..clients {
        let mut connection = way.connect().await.unwrap();
        let (next, make, goes_on) = (next.clone(), make.clone(), goes_on.clone());
        running.push(tokio::spawn(async move {
            let mut done = 0;
            while goes_on() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    break;
                }
                let request = make(number);
                let (code, answer) =
                    connection.exchange(request.method, &request.path, &request.body).await.unwrap();
                assert!(code == request.expected, "{code}: {}", String::from_utf8_lossy(&answer));
                done += 1;
            }
            done
        }));
    }
    let mut done = 0;
    for running in running {
        done += running.await.unwrap();
    }
    done
}
