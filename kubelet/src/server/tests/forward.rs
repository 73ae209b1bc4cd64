//! Ports of a pod, frame by frame.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::bed::{Bed, DEADLINE, frame};

const V4: &str = "v4.channel.k8s.io";
const FORWARD: &str = "/portForward/shop/web";

/// What comes on a channel until so many bytes of it have come, or nothing more comes at all.
async fn on(socket: &mut WebSocketStream<UnixStream>, channel: u8, bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < bytes {
        match tokio::time::timeout(DEADLINE, socket.next()).await.unwrap() {
            Some(Ok(Message::Binary(message))) if message[0] == channel => {
                all.extend_from_slice(&message[1..])
            }
            Some(Ok(Message::Close(_))) | None => break,
            _ => {}
        }
    }
    all
}

#[tokio::test]
async fn each_port_has_two_channels_that_begin_with_its_number() {
    let bed = Bed::new().await;
    // The fake says back what port 7 is told; nobody listens on 9.
    let (mut socket, agreed) = bed.websocket(&format!("{FORWARD}?port=9,7"), V4).await.unwrap();
    assert_eq!(agreed, V4);
    socket.send(frame(2, b"said to the first")).await.unwrap();
    socket.send(frame(2, b" and more")).await.unwrap();
    let said = on(&mut socket, 2, 28).await;
    assert_eq!(said, b"\x07\x00said to the first and more");

    let (mut socket, _) =
        bed.websocket("/api/v1/namespaces/shop/pods/web/portforward?ports=9", V4).await.unwrap();
    let why = String::from_utf8(on(&mut socket, 1, usize::MAX).await).unwrap();
    assert!(
        why.starts_with("\x09\x00error forwarding port 9 to pod: ") && why.contains("refused"),
        "{why:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_forwarded_is_refused_before_the_upgrade() {
    let bed = Bed::new().await;
    for (path, code, message) in [
        (format!("{FORWARD}?port=7"), 400, "Upgrade request required"),
        ("/portForward/shop/none?port=7".to_owned(), 404, "pods \"none\" not found"),
    ] {
        let (found, said) = bed.refusal(&path).await;
        assert_eq!((found, said.starts_with(message)), (code, true), "{path}: {said}");
    }
    for query in ["", "?port=0", "?port=x", "?ports=1,,2", "?port=70000"] {
        assert_eq!(bed.websocket(&format!("{FORWARD}{query}"), V4).await.err(), Some(400), "{query}");
    }
    assert_eq!(bed.websocket(&format!("{FORWARD}?port=7"), "v5.channel.k8s.io").await.err(), Some(403));
}
