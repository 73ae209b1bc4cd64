//! Exec sessions, frame by frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::bed::{Bed, DEADLINE, frame};
use crate::runtime::Error;

const EXEC: &str = "/api/v1/namespaces/shop/pods/web/exec";
const V5: &str = "v5.channel.k8s.io";

/// Standard output and the final status.
async fn rest(mut socket: impl futures_util::Stream<Item = Message> + Unpin) -> (Vec<u8>, Value) {
    let mut output = Vec::new();
    let mut status = Value::Null;
    while let Some(message) = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap() {
        match message {
            Message::Binary(bytes) => match bytes[0] {
                1 => output.extend_from_slice(&bytes[1..]),
                3 => status = serde_json::from_slice(&bytes[1..]).unwrap(),
                other => panic!("a frame of channel {other}"),
            },
            Message::Close(close) => {
                assert_eq!(u16::from(close.unwrap().code), 1000);
                break;
            }
            _ => {}
        }
    }
    (output, status)
}

fn messages(socket: WebSocketStream<UnixStream>) -> impl futures_util::Stream<Item = Message> + Unpin {
    Box::pin(socket.map(Result::unwrap))
}

#[tokio::test]
async fn exec_transfers_more_data_than_the_buffers_hold() {
    let bed = Bed::new().await;
    let path = format!("{EXEC}?container=c&command=cat&stdin=true&stdout=true");
    let (socket, agreed) = bed.websocket(&path, "v5.channel.k8s.io,v4.channel.k8s.io").await.unwrap();
    assert_eq!(agreed, V5);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut sink, stream) = socket.split();
    let input = sent.clone();
    // Written completely before the end is sent, so the process must be read meanwhile.
    let writing = tokio::spawn(async move {
        for piece in input.chunks(10_000) {
            sink.send(frame(0, piece)).await.unwrap();
        }
        sink.send(frame(255, &[0])).await.unwrap();
    });
    let (output, status) = rest(Box::pin(stream.map(Result::unwrap))).await;
    writing.await.unwrap();
    assert!(output == sent, "{} bytes came back", output.len());
    assert_eq!(status, json!({"metadata": {}, "status": "Success"}));
}

#[tokio::test]
async fn exec_status_contains_the_exit_code() {
    let bed = Bed::new().await;
    let path = format!("{EXEC}?container=c&command=exit&command=3&stdout=true");
    let (socket, agreed) = bed.websocket(&path, "v4.channel.k8s.io").await.unwrap();
    assert_eq!(agreed, "v4.channel.k8s.io");
    let (_, status) = rest(messages(socket)).await;
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
}

#[tokio::test]
async fn a_start_failure_is_sent_as_the_exit_status() {
    let bed = Bed::new().await;
    let refused = Error::refused("start the command", "no such file");
    bed.fake.fail_next("exec_start", refused);
    let path = format!("{EXEC}?container=c&command=x&stdout=true");
    let (socket, _) = bed.websocket(&path, V5).await.unwrap();
    let (_, status) = rest(messages(socket)).await;
    let received = "error executing command in container: the container engine refused to start the command: no such file";
    assert_eq!((&status["status"], &status["message"]), (&json!("Failure"), &json!(received)));
}

#[tokio::test]
async fn the_exit_status_arrives_while_input_is_pending() {
    let bed = Bed::new().await;
    for path in [
        &format!("{EXEC}?container=c&command=exit&command=3&stdin=true&stdout=true"),
        // A closed port.
        "/portForward/shop/web?port=9",
    ] {
        let (mut socket, _) = bed.websocket(path, "v4.channel.k8s.io").await.unwrap();
        // More data than all buffers hold, which is not read any more.
        for _ in 0..200 {
            socket.send(frame(0, &[7; 10_000])).await.unwrap();
        }
        let mut received = Vec::new();
        while let Some(message) = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap() {
            received.push(message.unwrap());
        }
        assert!(
            matches!(&received[..], [.., Message::Binary(_), Message::Close(Some(_))]),
            "{path}: {received:?}"
        );
    }
}

#[tokio::test]
async fn input_before_a_disconnect_is_delivered() {
    let bed = Bed::new().await;
    let path = format!("{EXEC}?container=c&command=count&stdin=true");
    // As a client that copies data into a container and signals the end by closing.
    let (mut socket, _) = bed.websocket(&format!("{path}&stdout=true"), "v4.channel.k8s.io").await.unwrap();
    for _ in 0..20 {
        socket.send(frame(0, &[7; 10_000])).await.unwrap();
    }
    socket.close(None).await.unwrap();
    let taken = async {
        while !bed.fake.calls().contains(&"counted 200000".to_owned()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, taken).await.unwrap();
}

#[tokio::test]
async fn the_terminal_size_is_set() {
    let bed = Bed::new().await;
    let path = format!("{EXEC}?container=c&command=sh&stdin=true&stdout=true&tty=true");
    let (mut socket, _) = bed.websocket(&path, V5).await.unwrap();
    socket.send(frame(4, br#"{"Width":132,"Height":43}"#)).await.unwrap();
    socket.send(frame(0, b"x")).await.unwrap();
    // The typed text returns after the size was forwarded.
    while !matches!(socket.next().await.unwrap().unwrap(), Message::Binary(bytes) if bytes[..] == [1, b'x']) {
    }
    assert!(bed.fake.calls().iter().any(|call| call.starts_with("exec_resize")), "{:?}", bed.fake.calls());
}

#[tokio::test]
async fn exec_sends_only_the_requested_streams() {
    let bed = Bed::new().await;
    let path = format!("{EXEC}?container=c&command=cat&stdin=true&stderr=true");
    let (mut socket, _) = bed.websocket(&path, V5).await.unwrap();
    socket.send(frame(0, b"x")).await.unwrap();
    socket.send(frame(255, &[0])).await.unwrap();
    assert_eq!(rest(messages(socket)).await.0, b"");
}

#[tokio::test]
async fn attach_uses_only_streams_of_the_container() {
    let bed = Bed::new().await;
    let path = "/api/v1/namespaces/shop/pods/web/attach?container=c&stdout=true";
    let (socket, _) = bed.websocket(path, V5).await.unwrap();
    bed.fake.exit(&bed.id, 0);
    assert_eq!(rest(messages(socket)).await.1["status"], "Success");
    let (code, message) = bed.refusal(&format!("{path}&stdin=true")).await;
    assert_eq!((code, message.starts_with("container \"c\" takes no input")), (400, true), "{message}");
}

#[tokio::test]
async fn attach_to_an_exited_container_ends() {
    let bed = Bed::new().await;
    bed.receives_both_lines().await;
    // The pod's status still shows it as running.
    bed.fake.exit(&bed.id, 0);
    let path = "/api/v1/namespaces/shop/pods/web/attach?container=c&stdout=true";
    let (socket, _) = bed.websocket(path, V5).await.unwrap();
    let (output, status) = rest(messages(socket)).await;
    assert_eq!((&*output, &status["status"]), (&b""[..], &json!("Failure")));
}

#[tokio::test]
async fn exec_rejects_invalid_requests_before_the_upgrade() {
    let bed = Bed::new().await;
    for (path, code, message) in [
        (format!("{EXEC}?container=c&command=x&stdout=true"), 400, "Upgrade request required"),
        (format!("{EXEC}?container=c&stdout=true"), 400, "you must specify at least one command"),
        (
            format!("{EXEC}?container=c&command=x"),
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        (format!("{EXEC}?container=d&command=x&stdout=true"), 404, "container not found (\"d\")"),
        (format!("{EXEC}?command=x&stdout=true"), 400, "a container name must be specified for pod web"),
        ("/exec/shop/none/c?command=x&output=1".to_owned(), 404, "pods \"none\" not found"),
    ] {
        let (found, received) = bed.refusal(&path).await;
        assert_eq!((found, received.starts_with(message)), (code, true), "{path}: {received}");
    }
    let path = format!("{EXEC}?container=c&command=x&stdout=true");
    assert_eq!(bed.websocket(&path, "base64.channel.k8s.io").await.err(), Some(403));
    assert!(bed.fake.calls().iter().all(|call| !call.starts_with("exec_start")), "nothing was started");
}

#[tokio::test]
async fn exec_v1_protocol_sends_no_status() {
    let bed = Bed::new().await;
    for (command, words) in
        [("command=cat", &b""[..]), ("command=exit&command=3", b"command terminated with non-zero")]
    {
        let path = format!("{EXEC}?container=c&{command}&stdin=false&stdout=true");
        let (mut socket, _) = bed.websocket(&path, "channel.k8s.io").await.unwrap();
        let mut received = Vec::new();
        while let Some(Ok(message)) = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap() {
            match message {
                Message::Binary(bytes) if bytes[0] == 3 => received.extend_from_slice(&bytes[1..]),
                Message::Close(_) => break,
                _ => {}
            }
        }
        assert!(
            if words.is_empty() { received.is_empty() } else { received.starts_with(words) },
            "{received:?}"
        );
    }
}
