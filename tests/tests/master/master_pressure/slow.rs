//! Clients that send slowly, and watchers that do not read.

use serde_json::json;
use tests::Master;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::master_pressure::bed::{MAPS, connection, map, resident_kib, url};

/// Clients that send only the beginning of a request.
const SLOW: usize = 300;
/// Watchers that do not read.
const DEAF: usize = 20;
/// Bytes per change and number of changes: several times the size of all socket buffers.
const CHANGE_BYTES: usize = 700_000;
const CHANGES: usize = 40;
/// Maximum memory growth in KiB; a copy for each client would be half a GiB.
const MOST_KIB: u64 = 160 * 1024;

#[tokio::test]
async fn slow_senders_do_not_block_others() {
    let master = Master::running().await;
    let mut slow = Vec::new();
    for number in 0..SLOW {
        let mut stream = connection(&master).await;
        let begun = match number % 3 {
            0 => "GET /api/v1/na".to_owned(),
            1 => format!("POST {MAPS} HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\n"),
            _ => format!("POST {MAPS} HTTP/1.1\r\nHost: m\r\nContent-Length: 1000\r\n\r\n{{"),
        };
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // Clients that do not start the TLS handshake.
    let mut silent = Vec::new();
    for _ in 0..SLOW {
        silent.push(TcpStream::connect(("127.0.0.1", master.port.number)).await.unwrap());
    }
    let admin = master.data_dir().join("admin.kubeconfig");
    let made = master.kubectl(&admin, &["create", "configmap", "a"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(master.get_as_admin("/readyz").await.0, 200);
}

#[tokio::test]
async fn clients_that_do_not_read_use_little_memory() {
    let master = Master::running().await;
    let client = master.client();
    let maps = url(&master, MAPS);
    assert_eq!(client.post(&maps).json(&map("fat")).send().await.unwrap().status(), 201);
    let mut deaf = Vec::new();
    for _ in 0..DEAF {
        let mut stream = connection(&master).await;
        let request = format!("GET {MAPS}?watch=true HTTP/1.1\r\nHost: m\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // Reads only the start of the response.
        stream.read_exact(&mut [0; 15]).await.unwrap();
        deaf.push(stream);
    }
    let before = resident_kib(&master);
    for number in 0..CHANGES {
        let mut fat = map("fat");
        fat["data"] = json!({"x": format!("{number}{}", "x".repeat(CHANGE_BYTES))});
        let put = client.put(format!("{maps}/fat")).json(&fat).send().await.unwrap();
        assert_eq!(put.status(), 200);
    }
    let grown = resident_kib(&master).saturating_sub(before);
    println!("{DEAF} watches without a reader, {CHANGES} changes of {CHANGE_BYTES} bytes: {grown} KiB more");
    assert!(grown < MOST_KIB, "{grown} KiB");
    // A watcher that resumes reading gets all events or an error, never a gap.
    let mut last = deaf.pop().unwrap();
    let mut seen = Vec::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = tokio::time::timeout(tests::DEADLINE, last.read(&mut piece)).await.unwrap().unwrap();
        seen.extend_from_slice(&piece[..read]);
        let tail = String::from_utf8_lossy(&seen[seen.len().saturating_sub(2000)..]).into_owned();
        if tail.contains("\"reason\":\"Expired\"") || tail.contains("\"code\":410") {
            break;
        }
        assert!(read > 0, "it ended without a word: {tail}");
    }
}
