//! HTTP servers of `healthCheckNodePort`: a load balancer learns whether a node has endpoints of a Service.
//!
//! The status is 200 if there are endpoints on this node, otherwise 503. The body is JSON, as that of a stock
//! kube-proxy.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::services::ServiceName;

/// Interval between attempts to bind a port that another program uses.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The Service of a port, and its number of endpoints on this node.
type Answer = (Arc<ServiceName>, usize);

/// All servers, by port.
#[derive(Debug, Default)]
pub struct HealthChecks {
    servers: BTreeMap<u16, Server>,
}

#[derive(Debug)]
struct Server {
    answer: watch::Sender<Answer>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HealthChecks {
    /// Starts missing servers, stops obsolete ones, and updates the answers of the others.
    pub fn set(&mut self, wanted: BTreeMap<u16, Answer>) {
        self.servers.retain(|port, _| wanted.contains_key(port));
        for (port, answer) in wanted {
            match self.servers.get(&port) {
                Some(server) => drop(server.answer.send_replace(answer)),
                None => drop(self.servers.insert(port, start(port, answer))),
            }
        }
    }
}

fn start(port: u16, answer: Answer) -> Server {
    let (answer, answers) = watch::channel(answer);
    Server { answer, task: tokio::spawn(serve(port, answers)) }
}

/// Serves a port until the task is aborted.
async fn serve(port: u16, answers: watch::Receiver<Answer>) {
    let mut was_reported = false;
    let listener = loop {
        // The IPv6 socket also accepts IPv4, unless the machine has no IPv6.
        let six = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await;
        let bound = match six {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
        };
        match bound {
            Ok(listener) => break listener,
            Err(error) if !was_reported => {
                let service = answers.borrow().0.to_string();
                tracing::warn!(port, service, %error, "cannot serve the healthCheckNodePort of a Service, retrying");
                was_reported = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(BIND_RETRY_INTERVAL).await;
    };
    // The task ends only when it is aborted, so this never becomes true.
    let (_stop, stopped) = watch::channel(false);
    apiserver::serve(listener, router(answers), stopped).await;
}

fn router(answers: watch::Receiver<Answer>) -> Router {
    Router::new().fallback(any(answer)).with_state(answers)
}

async fn answer(State(answers): State<watch::Receiver<Answer>>) -> (StatusCode, Json<Value>) {
    let (service, endpoints) = answers.borrow().clone();
    let status = if endpoints > 0 { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "service": {"namespace": service.namespace, "name": service.name},
        "localEndpoints": endpoints,
        "serviceProxyHealthy": true,
    });
    (status, Json(body))
}

#[cfg(test)]
mod tests {
    //! Tests of the answers to load balancers.
    use std::sync::Arc;

    use axum::extract::State;
    use tokio::sync::watch;

    use super::answer;
    use crate::cluster::services::ServiceName;

    #[tokio::test]
    async fn a_node_without_endpoints_is_not_available() {
        let name = Arc::new(ServiceName::new("shop", "web"));
        let (sender, answers) = watch::channel((name.clone(), 0));
        let (status, body) = answer(State(answers.clone())).await;
        assert_eq!((status.as_u16(), body.0["localEndpoints"].as_u64()), (503, Some(0)));
        assert_eq!(body.0["service"]["name"], "web");
        sender.send_replace((name, 2));
        assert_eq!(answer(State(answers)).await.0.as_u16(), 200);
    }
}
