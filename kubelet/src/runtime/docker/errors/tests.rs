//! Real messages of a real engine and what they mean.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn server(status_code: u16, message: &str) -> Error {
    meaning(
        "start the container",
        "abc",
        Engine::DockerResponseServerError { status_code, message: message.to_owned() },
    )
}

#[test]
fn a_404_is_not_found() {
    assert!(
        matches!(server(404, "No such container: abc"), Error::NotFound { what } if what == "No such container: abc")
    );
    assert!(matches!(server(404, ""), Error::NotFound { what } if what == "abc"));
}

#[test]
fn a_refusal_keeps_what_matters() {
    let message = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container \
                   process: exec: \"nope\": executable file not found in $PATH: unknown";
    let Error::Refused { message, .. } = server(400, message) else { panic!("not refused") };
    assert_eq!(
        message,
        "unable to start container process: exec: \"nope\": executable file not found in $PATH"
    );
}

#[test]
fn an_engine_that_is_half_down_is_unreachable() {
    let away = "connection error: desc = \"transport: error while dialing: dial unix \
                /run/containerd/containerd.sock: connect: connection refused\": unavailable";
    assert!(matches!(server(500, away), Error::Unreachable { .. }));
    let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert!(matches!(meaning("list containers", "", Engine::IOError { err: io }), Error::Unreachable { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_is_unreachable() {
    let hangs = std::future::pending::<Result<(), Engine>>();
    let error = within(ASK, "inspect the container", "abc", hangs).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the container engine does not answer (inspect the container): no answer within 15 seconds"
    );
}
