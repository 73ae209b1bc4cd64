//! Lifecycle hooks.

use std::time::Duration;

use k8s_openapi::api::core::v1::{HTTPGetAction, SleepAction, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::bed::Server;
use crate::probes::handler::{self, LIFECYCLE_USER_AGENT, Outcome};

#[tokio::test]
async fn http_hook_accepts_any_response() {
    let server = Server::start(&["HTTP/1.1 500 Oh\r\n\r\n"]).await;
    let port = IntOrString::Int(server.port().into());
    let action =
        HTTPGetAction { port: port.clone(), path: Some("/bye".to_owned()), ..HTTPGetAction::default() };
    let ip = Some("127.0.0.1".parse().unwrap());
    let second = Duration::from_secs(1);
    assert_eq!(handler::http_notify(&action, &[], ip, second).await, Outcome::Success);
    assert!(server.last_request().contains(LIFECYCLE_USER_AGENT.as_str()));
    let tcp = TCPSocketAction { port, host: None };
    assert_eq!(handler::tcp_socket(&tcp, &[], ip, second).await, Outcome::Success);
    let refused = TCPSocketAction { port: IntOrString::Int(1), host: None };
    let expected = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(handler::tcp_socket(&refused, &[], ip, second).await, Outcome::Failure(expected.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn sleep_hook_waits_for_its_duration() {
    let start = tokio::time::Instant::now();
    assert_eq!(handler::sleep(&SleepAction { seconds: 7 }).await, Outcome::Success);
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}
