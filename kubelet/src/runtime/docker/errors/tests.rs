//! Classification of error messages of a real engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn server(status_code: u16, message: &str) -> Error {
    classify(
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
fn engine_error_keeps_the_relevant_part_of_the_message() {
    let message = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container \
                   process: exec: \"nope\": executable file not found in $PATH: unknown";
    let Error::Refused { message, .. } = server(400, message) else { panic!("not refused") };
    assert_eq!(
        message,
        "unable to start container process: exec: \"nope\": executable file not found in $PATH"
    );
}

#[test]
fn partially_stopped_engine_is_unreachable() {
    let away = "connection error: desc = \"transport: error while dialing: dial unix \
                /run/containerd/containerd.sock: connect: connection refused\": unavailable";
    assert!(matches!(server(500, away), Error::Unreachable { .. }));
    let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert!(matches!(
        classify("list containers", "", Engine::IOError { err: io }),
        Error::Unreachable { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn hanging_engine_is_unreachable() {
    let hangs = std::future::pending::<Result<(), Engine>>();
    let error = with_timeout(QUERY_TIMEOUT, "inspect the container", "abc", hangs).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the container engine does not answer (inspect the container): no answer within 15 seconds"
    );
}

#[test]
fn error_cause_follows_from_status_or_known_text() {
    let stream =
        |text: &str| classify("pull the image", "i", Engine::DockerStreamError { error: text.to_owned() });
    let start = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: ";
    for (error, expected) in [
        (
            server(
                409,
                "Conflict. The container name \"/k8s_web\" is already in use by container \"4f1c\". You have to remove (or \
                 rename) that container to be able to reuse that name.",
            ),
            Refusal::Conflict,
        ),
        (server(409, "cannot kill container: 4f1c: container 4f1c is not running"), Refusal::Conflict),
        (server(409, "removal of container 4f1c is already in progress"), Refusal::Conflict),
        (
            server(500, &format!("{start}can't get final child's PID from pipe: EOF: unknown")),
            Refusal::ChildDied,
        ),
        (
            server(400, &format!("{start}write /proc/self/oom_score_adj: permission denied: unknown")),
            Refusal::OomScore,
        ),
        (
            server(400, &format!("{start}unable to apply caps: operation not permitted: unknown")),
            Refusal::Capabilities,
        ),
        (
            server(400, &format!("{start}unable to apply bounding set: operation not permitted: unknown")),
            Refusal::Capabilities,
        ),
        (
            server(400, &format!("{start}exec: \"nope\": executable file not found in $PATH: unknown")),
            Refusal::Other,
        ),
        (server(500, &format!("{start}exec: \"/a\": permission denied: unknown")), Refusal::Other),
        (server(500, "Head \"https://r.io/v2/a/manifests/1\": unauthorized"), Refusal::AccessDenied),
        (server(500, "unauthorized: authentication required"), Refusal::AccessDenied),
        (
            server(500, "Head \"https://r.io/v2/a/manifests/1\": no basic auth credentials"),
            Refusal::AccessDenied,
        ),
        (server(500, "Head \"https://ghcr.io/v2/a/manifests/1\": denied"), Refusal::AccessDenied),
        (
            stream(
                "pull access denied for a, repository does not exist or may require 'docker login': denied: requested \
                 access to the resource is denied",
            ),
            Refusal::AccessDenied,
        ),
        (
            stream("unexpected status from HEAD request to https://r.io/v2/a: 403 Forbidden"),
            Refusal::AccessDenied,
        ),
        (stream("toomanyrequests: You have reached your pull rate limit."), Refusal::AccessDenied),
        (stream("no space left on device"), Refusal::Other),
    ] {
        let Error::Refused { cause, message, .. } = error else { panic!("{error}") };
        assert_eq!(cause, expected, "{message}");
    }
}
