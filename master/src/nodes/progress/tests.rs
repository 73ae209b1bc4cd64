//! Clients that go while nobody reads what they sent, and clients that stay.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const LOOK: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(30);
/// A few looks.
const WHILE: Duration = Duration::from_millis(100);

/// A client, the end of it that is read, and a second look at that.
async fn pair() -> (TcpStream, Told<TcpStream>, TcpStream, Arc<Progress>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let server = listener.accept().await.unwrap().0.into_std().unwrap();
    let again = TcpStream::from_std(server.try_clone().unwrap()).unwrap();
    let progress = Arc::new(Progress::default());
    let told = Told::new(TcpStream::from_std(server).unwrap(), progress.clone());
    (client, told, again, progress)
}

#[tokio::test]
async fn a_client_that_leaves_behind_what_nobody_reads_is_gone() {
    let (mut client, mut told, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    told.read_exact(&mut [0; 2]).await.unwrap();
    drop(client);
    tokio::time::timeout(DEADLINE, progress.gone(&again, LOOK)).await.unwrap();
}

#[tokio::test]
async fn a_client_whose_connection_breaks_is_gone_at_once() {
    let (client, mut told, again, progress) = pair().await;
    told.write_all(b"never read").await.unwrap();
    // What it has not read breaks the connection when it closes.
    client.readable().await.unwrap();
    drop(client);
    tokio::time::timeout(DEADLINE, progress.gone(&again, DEADLINE * 2)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_only_has_no_more_to_say_is_there() {
    let (mut client, mut told, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    client.shutdown().await.unwrap();
    let mut input = Vec::new();
    told.read_to_end(&mut input).await.unwrap();
    assert_eq!(input, b"input");
    let gone = tokio::time::timeout(WHILE, progress.gone(&again, LOOK)).await;
    assert!(gone.is_err(), "it waits for the answer");
    told.write_all(b"answer").await.unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.unwrap();
}

#[tokio::test]
async fn a_client_that_waits_until_its_input_is_taken_is_there() {
    let (mut client, mut told, again, progress) = pair().await;
    client.write_all(b"input").await.unwrap();
    told.read_exact(&mut [0; 2]).await.unwrap();
    let gone = tokio::time::timeout(WHILE, progress.gone(&again, LOOK)).await;
    assert!(gone.is_err(), "it is patient");
    drop(client);
}

#[tokio::test]
async fn a_body_stands_when_nobody_takes_it_and_not_when_the_client_is_slow() {
    let progress = Arc::new(Progress::default());
    let pieces = [Ok::<_, io::Error>("a"), Ok("b")];
    let mut body = Sent::new(Body::from_stream(futures_util::stream::iter(pieces)), progress.clone());
    body.frame().await.unwrap().unwrap();
    tokio::time::timeout(DEADLINE, progress.stands(LOOK)).await.unwrap();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
    assert!(tokio::time::timeout(WHILE, progress.stands(LOOK)).await.is_err(), "all of it is taken");

    let progress = Arc::new(Progress::default());
    let slow = Body::from_stream(futures_util::stream::pending::<Result<&str, io::Error>>());
    let mut body = Sent::new(slow, progress.clone());
    let both = async { tokio::join!(body.frame(), progress.stands(LOOK)) };
    assert!(tokio::time::timeout(WHILE, both).await.is_err(), "the client is waited for");

    let progress = Arc::new(Progress::default());
    let _none = Sent::new(Body::empty(), progress.clone());
    assert!(tokio::time::timeout(WHILE, progress.stands(LOOK)).await.is_err(), "there is nothing to take");
}
