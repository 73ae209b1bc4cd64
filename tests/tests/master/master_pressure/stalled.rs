//! Watchers that keep their HTTP/2 windows closed but answer pings: the server cannot send, and TCP reports no problem.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::SendRequest;
use serde_json::json;
use tests::{DEADLINE, Master, tls_config, wait_until};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::master_pressure::bed::{MAPS, map, resident_kib, url, user_files};

/// Connections, and watches on each: the limits of one client.
const CONNECTIONS: usize = 4;
const WATCHES: usize = 200;
/// Bytes per change and number of changes.
const CHANGE_BYTES: usize = 700_000;
const CHANGES: usize = 12;
/// Maximum memory growth in KiB; a copy for each watch would be 560 MiB.
const MOST_KIB: u64 = 160 * 1024;
/// Maximum lifetime of such a connection: the one-minute limit and the server's check intervals.
const CLOSED_WITHIN: Duration = Duration::from_secs(150);

/// A connection of that user with closed windows, and a future that completes when it closes.
async fn connection(
    master: &Master,
    who: &(String, String, String),
) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let mut config = tls_config(&who.0, Some((&who.1, &who.2))).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", master.port.number)).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0).initial_connection_window_size(65_535);
    let (requests, connection) = builder.handshake(stream).await.unwrap();
    (requests, tokio::spawn(connection))
}

#[tokio::test]
async fn stalled_watches_use_little_memory_and_are_closed() {
    let master = Master::running().await;
    let admin = master.client();
    let maps = url(&master, MAPS);
    assert_eq!(admin.post(&maps).json(&map("fat")).send().await.unwrap().status(), 201);
    let who = user_files(&master, "mallory").await;
    let mut stalled = Vec::new();
    for _ in 0..CONNECTIONS {
        let (requests, connection) = connection(&master, &who).await;
        let begun = (0..WATCHES).map(|_| {
            let mut requests = requests.clone();
            let request = http::Request::get(url(&master, &format!("{MAPS}?watch=true"))).body(()).unwrap();
            async move {
                requests = requests.ready().await.unwrap();
                let (answer, _) = requests.send_request(request, true).unwrap();
                let answer = answer.await.unwrap();
                assert_eq!(answer.status(), 200);
                answer
            }
        });
        stalled.push((join_all(begun).await, connection));
    }
    let before = resident_kib(&master);
    for number in 0..CHANGES {
        let mut fat = map("fat");
        fat["data"] = json!({"x": format!("{number}{}", "x".repeat(CHANGE_BYTES))});
        let put = admin.put(format!("{maps}/fat")).json(&fat).send().await.unwrap();
        assert_eq!(put.status(), 200);
    }
    let grown = resident_kib(&master).saturating_sub(before);
    println!(
        "{} watches behind closed windows, {CHANGES} changes of {CHANGE_BYTES} bytes: {grown} KiB more",
        CONNECTIONS * WATCHES
    );
    assert!(grown < MOST_KIB, "{grown} KiB");
    // Other clients are served, and the stalled connections are closed.
    assert_eq!(admin.get(&maps).send().await.unwrap().status(), 200);
    for (_answers, connection) in stalled {
        let ended = tokio::time::timeout(CLOSED_WITHIN, connection).await;
        assert!(ended.is_ok(), "a client that takes nothing keeps its connection");
    }
}

#[tokio::test]
async fn user_at_the_watch_limit_gets_retry_after_without_effect_on_others() {
    /// The watch limit per user.
    const MOST: usize = 1_000;

    let master = Master::running().await;
    let who = user_files(&master, "mallory").await;
    let watch = url(&master, &format!("{MAPS}?watch=true"));
    let mut open = Vec::new();
    let mut refused = None;
    'all: for _ in 0..=MOST / WATCHES {
        let client = tests::trusting(&who.0, Some((&who.1, &who.2))).unwrap();
        for answer in join_all((0..WATCHES).map(|_| client.get(&watch).send())).await {
            let answer = answer.unwrap();
            if answer.status() == 429 {
                refused = Some(answer);
                break 'all;
            }
            assert_eq!(answer.status(), 200);
            open.push(answer);
        }
    }
    assert_eq!(open.len(), MOST);
    let refused = refused.expect("one more is refused");
    assert_eq!(refused.headers()["retry-after"], "1");
    let other = crate::master_pressure::bed::user(&master, "jane").await;
    assert_eq!(other.get(&watch).send().await.unwrap().status(), 200);
    drop(open);
    let client = tests::trusting(&who.0, Some((&who.1, &who.2))).unwrap();
    let look = async || match client.get(&watch).send().await.unwrap().status().as_u16() {
        200 => Ok(()),
        code => Err(format!("it was answered {code}")),
    };
    wait_until(DEADLINE, look).await.unwrap();
}
