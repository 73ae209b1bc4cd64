//! HTTP servers of `healthCheckNodePort`: a load balancer learns whether a node has endpoints of a Service.
//!
//! The status is 200 if there are endpoints on this node and its packet rules are current, otherwise 503. The body is
//! JSON, as that of a stock kube-proxy.

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

/// The header with the number of endpoints, by which a load balancer may weight the nodes.
const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    service: Arc<ServiceName>,
    /// The number of endpoints of the Service on this node.
    endpoints: usize,
    /// Whether the packet rules are current.
    is_healthy: bool,
}

/// Receives the message that a port cannot be served.
type Report = dyn Fn(String) + Send + Sync;

/// All servers, by port.
pub struct HealthChecks {
    servers: BTreeMap<u16, Server>,
    report: Arc<Report>,
}

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
    /// Creates no servers yet. `report` receives a message if a port cannot be served.
    pub fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { servers: BTreeMap::new(), report: Arc::new(report) }
    }

    /// Starts missing servers, stops obsolete ones, and updates the answers of the others. `wanted` has the Service of
    /// each port and the number of its endpoints on this node. `is_healthy` says whether the packet rules are current.
    pub fn set(&mut self, wanted: &BTreeMap<u16, (Arc<ServiceName>, usize)>, is_healthy: bool) {
        self.servers.retain(|port, _| wanted.contains_key(port));
        for (port, (service, endpoints)) in wanted {
            let answer = Answer { service: service.clone(), endpoints: *endpoints, is_healthy };
            match self.servers.get(port) {
                Some(server) => drop(server.answer.send_replace(answer)),
                None => {
                    let (answer, answers) = watch::channel(answer);
                    let task = tokio::spawn(serve(*port, answers, self.report.clone()));
                    self.servers.insert(*port, Server { answer, task });
                }
            }
        }
    }
}

/// Serves a port until the task is aborted.
async fn serve(port: u16, answers: watch::Receiver<Answer>, report: Arc<Report>) {
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
                let service = answers.borrow().service.to_string();
                report(format!(
                    "cannot serve the healthCheckNodePort {port} of Service {service}: {error}; retrying. A load balancer \
                     sends no connections to this node meanwhile"
                ));
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

async fn answer(
    State(answers): State<watch::Receiver<Answer>>,
) -> (StatusCode, [(&'static str, String); 1], Json<Value>) {
    let Answer { service, endpoints, is_healthy } = answers.borrow().clone();
    let is_available = endpoints > 0 && is_healthy;
    let status = if is_available { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "service": {"namespace": service.namespace, "name": service.name},
        "localEndpoints": endpoints,
        "serviceProxyHealthy": is_healthy,
    });
    (status, [(WEIGHT, endpoints.to_string())], Json(body))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    //! Tests of the servers over HTTP.
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::HealthChecks;
    use crate::cluster::services::ServiceName;

    /// The answer of a port, headers in lower case. Waits until the port is open.
    async fn get(port: u16) -> String {
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_port_answers_whether_the_node_is_healthy_and_has_endpoints() {
        let port = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
        let wanted =
            |endpoints| BTreeMap::from([(port, (Arc::new(ServiceName::new("shop", "web")), endpoints))]);
        let mut checks = HealthChecks::new(|text| panic!("{text}"));
        checks.set(&wanted(0), true);
        let answer = get(port).await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("\"serviceProxyHealthy\":true"),
            "{answer}"
        );
        checks.set(&wanted(2), true);
        let answer = get(port).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"localEndpoints\":2"), "{answer}");
        assert!(answer.contains("x-load-balancing-endpoint-weight: 2"), "{answer}");
        checks.set(&wanted(2), false);
        let answer = get(port).await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("\"serviceProxyHealthy\":false"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_port_in_use_is_reported() {
        let listener = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, mut reports) = mpsc::unbounded_channel();
        let mut checks = HealthChecks::new(move |text| drop(sender.send(text)));
        checks.set(&BTreeMap::from([(port, (Arc::new(ServiceName::new("shop", "web")), 1))]), true);
        let text = reports.recv().await.unwrap();
        assert!(text.contains(&port.to_string()) && text.contains("shop/web"), "{text}");
    }
}
