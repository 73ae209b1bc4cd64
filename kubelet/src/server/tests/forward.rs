//! Port forwarding, frame by frame.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::bed::{Bed, DEADLINE, frame};
use crate::runtime::contract::identity;
use crate::runtime::fake::Fake;
use crate::server::channels::Connection;
use crate::server::forward::{Destination, forward_port};

const V4: &str = "v4.channel.k8s.io";
const FORWARD: &str = "/portForward/shop/web";

/// Data on a channel, until this many bytes or the end.
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
async fn each_forwarded_port_has_two_channels_that_begin_with_its_number() {
    let bed = Bed::new().await;
    // Port 7 of the fake echoes; port 9 is closed.
    let (mut socket, agreed) = bed.websocket(&format!("{FORWARD}?port=9,7"), V4).await.unwrap();
    assert_eq!(agreed, V4);
    socket.send(frame(2, b"said to the first")).await.unwrap();
    socket.send(frame(2, b" and more")).await.unwrap();
    let received = on(&mut socket, 2, 28).await;
    assert_eq!(received, b"\x07\x00said to the first and more");

    let (mut socket, _) =
        bed.websocket("/api/v1/namespaces/shop/pods/web/portforward?ports=9", V4).await.unwrap();
    let why = String::from_utf8(on(&mut socket, 1, usize::MAX).await).unwrap();
    assert!(
        why.starts_with("\x09\x00error forwarding port 9 to pod: ") && why.contains("refused"),
        "{why:?}"
    );
}

#[tokio::test]
async fn of_each_port_the_data_channel_opens_before_the_error_channel() {
    let bed = Bed::new().await;
    // Repeated, because the order of two tasks could differ.
    for _ in 0..20 {
        let (mut socket, _) = bed.websocket(&format!("{FORWARD}?port=9,7,8"), V4).await.unwrap();
        for (channel, port) in [(0, 9), (1, 9), (2, 7), (3, 7), (4, 8), (5, 8)] {
            let message = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(message, frame(channel, &[port, 0]));
        }
    }
}

/// Duration of a connection to a silent port after its client has performed `first`.
async fn silence(first: impl AsyncFnOnce(&mut DuplexStream)) -> Duration {
    let fake = Fake::new("n1");
    fake.bench().running("web", "while").await;
    let idle = Duration::from_secs(4 * 60 * 60);
    let to = Destination { runtime: Arc::new(fake), pod: identity("web", "c").uid, idle };
    let (mut client, data) = tokio::io::duplex(1024);
    let began = Instant::now();
    let connection = Connection { port: 8, data: Box::new(data), error: Box::new(tokio::io::sink()) };
    let carried = tokio::spawn(forward_port(connection, to));
    first(&mut client).await;
    carried.await.unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn an_idle_half_closed_connection_has_a_shorter_timeout() {
    let hours = silence(async |client| client.write_all(b"hello").await.unwrap()).await;
    assert!(hours >= Duration::from_secs(4 * 60 * 60), "{hours:?}");
    let minutes = silence(async |client| client.shutdown().await.unwrap()).await;
    assert!((15..16).contains(&(minutes.as_secs() / 60)), "{minutes:?}");
}

#[tokio::test]
async fn port_forward_rejects_invalid_requests_before_the_upgrade() {
    let bed = Bed::new().await;
    for (path, code, message) in [
        (format!("{FORWARD}?port=7"), 400, "Upgrade request required"),
        ("/portForward/shop/none?port=7".to_owned(), 404, "pods \"none\" not found"),
    ] {
        let (found, received) = bed.refusal(&path).await;
        assert_eq!((found, received.starts_with(message)), (code, true), "{path}: {received}");
    }
    for query in ["", "?port=0", "?port=x", "?ports=1,,2", "?port=70000"] {
        assert_eq!(bed.websocket(&format!("{FORWARD}{query}"), V4).await.err(), Some(400), "{query}");
    }
    assert_eq!(bed.websocket(&format!("{FORWARD}?port=7"), "v5.channel.k8s.io").await.err(), Some(403));
}
