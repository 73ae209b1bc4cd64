//! Clients that do not read, and idle sessions.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use apiserver::activity::Activity;
use apiserver::spdy::frame::{Encoder, Frame};
use axum::extract::ws::Message as Sent;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _, sink, stream};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::bed::{Bed, DEADLINE, frame};
use crate::runtime::fake::Fake;
use crate::runtime::{ExecRequest, Runtime as _};
use crate::server::channels::{Gone, Process};
use crate::server::session::{ProcessKind, RequestedStreams, Session};
use crate::server::websocket::send_all;

const IDLE: Duration = Duration::from_secs(1);
const CAT: &str = "/api/v1/namespaces/shop/pods/web/exec?container=c&command=cat&stdin=true&stdout=true";
const FORWARD: &str = "/portForward/shop/web?port=7";

/// Sends this message repeatedly without reading the answers, until the connection is closed.
async fn floods(mut socket: WebSocketStream<UnixStream>, message: Message) {
    let flood = async { while socket.send(message.clone()).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, flood).await.unwrap();
}

#[tokio::test]
async fn client_that_does_not_read_times_out() {
    let bed = Bed::idle_after(IDLE).await;
    let (socket, _) = bed.websocket(CAT, "v5.channel.k8s.io").await.unwrap();
    floods(socket, frame(0, &[7; 10_000])).await;
    let (socket, _) = bed.websocket(FORWARD, "v4.channel.k8s.io").await.unwrap();
    floods(socket, frame(0, &[7; 10_000])).await;
    let (socket, _) = bed.websocket(FORWARD, "SPDY/3.1+portforward.k8s.io").await.unwrap();
    let mut pings = BytesMut::new();
    let mut encoder = Encoder::default();
    for _ in 0..1000 {
        encoder.encode(&Frame::Ping(1), &mut pings);
    }
    floods(socket, Message::Binary(pings.freeze())).await;
}

#[tokio::test]
async fn pings_of_the_client_are_not_input() {
    let bed = Bed::idle_after(IDLE).await;
    for (path, protocol) in [(CAT, "v5.channel.k8s.io"), (FORWARD, "v4.channel.k8s.io")] {
        let (mut socket, _) = bed.websocket(path, protocol).await.unwrap();
        let mut pings = interval(IDLE / 10);
        let pinged = async {
            loop {
                tokio::select! {
                    _ = pings.tick() => drop(socket.send(Message::Ping(Bytes::new())).await),
                    received = socket.next() => if let Some(Ok(Message::Close(_))) | None = received { return },
                }
            }
        };
        tokio::time::timeout(DEADLINE, pinged).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn keepalive_ping_does_not_count_as_activity() {
    let (gets, receiver) = mpsc::channel(1);
    let (activity, begun) = (Activity::begin(), Instant::now());
    let telling = activity.clone();
    tokio::spawn(async move {
        let mut client = sink::drain().sink_map_err(|never: Infallible| never);
        send_all(&mut client, receiver, telling, 4 * IDLE).await
    });
    let asking = async {
        let mut ping_interval = interval(IDLE);
        loop {
            ping_interval.tick().await;
            gets.send(Sent::Ping(Bytes::new())).await.unwrap();
        }
    };
    tokio::select! {
        () = activity.idle_for(4 * IDLE) => {}
        _ = tokio::time::timeout(DEADLINE, asking) => {}
    }
    assert_eq!(begun.elapsed(), 4 * IDLE);
}

#[tokio::test(start_paused = true)]
async fn exec_status_does_not_wait_for_a_disconnected_client() {
    let fake = Fake::new("n1");
    let id = fake.bench().running("web", "while").await.id;
    for command in ["exit", "no such"] {
        let client = Process {
            stdin: Box::new(tokio::io::empty()),
            sizes: stream::pending().boxed(),
            output_sink: Box::pin(sink::unfold((), |(), _| pending::<Result<(), Gone>>())),
            gone: Box::pin(async { Activity::begin().idle_for(IDLE).await }),
        };
        let wanted = RequestedStreams { stdout: true, ..RequestedStreams::default() };
        let session = Session { runtime: Arc::new(fake.clone()), kind: ProcessKind::Command, wanted };
        let request =
            ExecRequest { command: vec![command.to_owned(), "3".to_owned()], stdin: false, tty: false };
        let id = if command == "exit" { &*id } else { "none" };
        let run = session.run(client, fake.exec_start(id, &request));
        tokio::time::timeout(DEADLINE, run).await.unwrap();
    }
}
