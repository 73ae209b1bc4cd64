//! Thousands of watches on one server; `CORACLE_WATCHES=10000` asks for that many.

use futures_util::future::join_all;
use serde_json::Value;
use tests::{DEADLINE, Master, wait_until};

use crate::master_pressure::bed::{MAPS, map, resident_kib, url};

/// Number of watches without `CORACLE_WATCHES`.
const WATCHES: usize = 1000;
/// Watches per connection, the limit of a client.
const EACH: usize = 250;
/// Maximum server memory per watch in bytes, with TLS and HTTP/2, in a debug build.
const MOST_BYTES: u64 = 96 * 1024;

#[tokio::test]
async fn thousands_of_watches_use_little_memory() {
    let watch_count = std::env::var("CORACLE_WATCHES").ok().map(|text| text.parse().unwrap());
    let connections = watch_count.unwrap_or(WATCHES).div_ceil(EACH);
    let master = Master::running().await;
    let client = master.client();
    let list: Value = client.get(url(&master, MAPS)).send().await.unwrap().json().await.unwrap();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    // Other clients write here too.
    let one = "fieldSelector=metadata.name%3Dseen-by-all";
    let watch =
        url(&master, &format!("{MAPS}?watch=true&resourceVersion={from}&allowWatchBookmarks=true&{one}"));
    // The controllers need memory, too, when they start.
    master.until_account("default").await;
    let before = resident_kib(&master);
    let mut watching = Vec::new();
    for _ in 0..connections {
        let client = master.client();
        let begun = join_all((0..EACH).map(|_| client.get(&watch).send())).await;
        watching.extend(begun.into_iter().map(|watch| {
            let watch = watch.unwrap();
            assert_eq!(watch.status(), 200);
            watch
        }));
    }
    let count = watching.len() as u64;
    let each = (resident_kib(&master).saturating_sub(before)) * 1024 / count;
    println!("{count} watches, {each} bytes each");
    assert!(each < MOST_BYTES, "{each} bytes each");
    let made = client.post(url(&master, MAPS)).json(&map("seen-by-all")).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let received = join_all(watching.iter_mut().enumerate().map(async |(number, watch)| {
        let mut line = Value::Null;
        // Bookmarks arrive every minute, and many watches take longer than that to start.
        while line["type"] == "BOOKMARK" || line.is_null() {
            let chunk = tokio::time::timeout(DEADLINE, watch.chunk()).await.unwrap().unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("watch {number} has ended\n{}", master.log()));
            line = serde_json::from_slice(&chunk).unwrap();
        }
        line
    }));
    for event in received.await {
        let received =
            (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap());
        assert_eq!(received, ("ADDED", "seen-by-all"));
    }
    drop(watching);
    let look = async || {
        let (_, metrics) = master.get_as_admin("/metrics").await;
        let left: f64 = metrics
            .lines()
            .filter(|line| {
                line.starts_with("apiserver_longrunning_requests{") && line.contains("\"configmaps\"")
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        if left < 100.0 { Ok(()) } else { Err(format!("{left} are left")) }
    };
    wait_until(DEADLINE, look).await.unwrap();
}
