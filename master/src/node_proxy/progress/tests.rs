//! Tests of clients that disconnect while the backend does not read.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(30);
/// A few check intervals.
const WHILE: Duration = Duration::from_millis(100);

/// A client, the tracked server end, and a duplicate of that socket.
async fn pair() -> (TcpStream, TrackedStream<TcpStream>, TcpStream, Arc<Progress>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let server = listener.accept().await.unwrap().0.into_std().unwrap();
    let again = TcpStream::from_std(server.try_clone().unwrap()).unwrap();
    let progress = Arc::new(Progress::default());
    let tracked = TrackedStream::new(TcpStream::from_std(server).unwrap(), progress.clone());
    (client, tracked, again, progress)
}

#[tokio::test]
async fn a_client_that_disconnects_with_unread_data_is_detected() {
    let (mut client, mut tracked, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    tracked.read_exact(&mut [0; 2]).await.unwrap();
    drop(client);
    tokio::time::timeout(DEADLINE, progress.client_closed(&again, CLIENT_CHECK_INTERVAL)).await.unwrap();
}

#[tokio::test]
async fn broken_client_connection_is_detected_at_once() {
    let (client, mut tracked, again, progress) = pair().await;
    tracked.write_all(b"never read").await.unwrap();
    // Closing a socket with unread data resets the connection.
    client.readable().await.unwrap();
    drop(client);
    tokio::time::timeout(DEADLINE, progress.client_closed(&again, DEADLINE * 2)).await.unwrap();
}

#[tokio::test]
async fn half_closed_client_counts_as_connected() {
    let (mut client, mut tracked, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    client.shutdown().await.unwrap();
    let mut input = Vec::new();
    tracked.read_to_end(&mut input).await.unwrap();
    assert_eq!(input, b"input");
    let client_closed =
        tokio::time::timeout(WHILE, progress.client_closed(&again, CLIENT_CHECK_INTERVAL)).await;
    assert!(client_closed.is_err(), "it waits for the answer");
    tracked.write_all(b"answer").await.unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.unwrap();
}

#[tokio::test]
async fn client_with_pending_input_counts_as_connected() {
    let (mut client, mut tracked, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    tracked.read_exact(&mut [0; 2]).await.unwrap();
    let client_closed =
        tokio::time::timeout(WHILE, progress.client_closed(&again, CLIENT_CHECK_INTERVAL)).await;
    assert!(client_closed.is_err(), "it is patient");
    drop(client);
}

#[tokio::test]
async fn body_is_stalled_while_it_is_not_read_until_it_ends() {
    let progress = Arc::new(Progress::default());
    let pieces = [Ok::<_, io::Error>("a"), Ok("b")];
    let mut body = TrackedBody::new(Body::from_stream(futures_util::stream::iter(pieces)), progress.clone());
    body.frame().await.unwrap().unwrap();
    tokio::time::timeout(DEADLINE, progress.stalled(CLIENT_CHECK_INTERVAL)).await.unwrap();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
    assert!(
        tokio::time::timeout(WHILE, progress.stalled(CLIENT_CHECK_INTERVAL)).await.is_err(),
        "all of it is taken"
    );

    let progress = Arc::new(Progress::default());
    let slow = Body::from_stream(futures_util::stream::pending::<Result<&str, io::Error>>());
    let mut body = TrackedBody::new(slow, progress.clone());
    let both = async { tokio::join!(body.frame(), progress.stalled(CLIENT_CHECK_INTERVAL)) };
    assert!(tokio::time::timeout(WHILE, both).await.is_err(), "the client is waited for");

    let progress = Arc::new(Progress::default());
    let _none = TrackedBody::new(Body::empty(), progress.clone());
    assert!(
        tokio::time::timeout(WHILE, progress.stalled(CLIENT_CHECK_INTERVAL)).await.is_err(),
        "there is nothing to take"
    );
}
