//! More concurrent requests than the limits of the master.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tests::{DEADLINE, Master, wait_until};

use crate::master_pressure::bed::{MAPS, map, url, user};

/// More than the limit of concurrent writes, which is 200 as in the stock server; the others are queued.
const WRITES: usize = 250;

/// Sends writes whose bodies never end and retries after a rejection, so that the limit stays reached even on a slow
/// machine.
async fn endless(client: reqwest::Client, url: String) {
    /// Retry delay of a client.
    const AWAY: Duration = Duration::from_millis(100);

    let mut again = tokio::time::interval(AWAY);
    // Ends when the test drops the task.
    loop {
        again.tick().await;
        let begun = futures_util::stream::once(async { Ok::<_, std::io::Error>("{\"metadata\":") });
        let body = reqwest::Body::wrap_stream(begun.chain(futures_util::stream::pending()));
        let _ = client.post(&url).header("content-type", "application/json").body(body).send().await;
    }
}

#[tokio::test]
async fn an_overloaded_server_sends_retry_after_and_serves_nodes_and_administrators() {
    let master = Master::running().await;
    let jane = user(&master, "jane").await;
    let crowd = user(&master, "crowd").await;
    let maps = url(&master, MAPS);
    let crowd: Vec<_> = (0..WRITES).map(|_| tokio::spawn(endless(crowd.clone(), maps.clone()))).collect();
    let write = async |name: &str| {
        let answer = jane.post(&maps).json(&map(name)).send().await.map_err(|error| format!("{error:?}"))?;
        let (code, retry) = (answer.status().as_u16(), answer.headers().get("retry-after").cloned());
        Ok::<_, String>((code, retry, answer.json::<Value>().await.unwrap()))
    };
    let mut tries = 0;
    let look = async || {
        tries += 1;
        match write(&format!("full-{tries}")).await? {
            (429, retry, message) => Ok((retry, message)),
            (code, ..) => Err(format!("it was answered {code}")),
        }
    };
    let (retry, message) = wait_until(DEADLINE, look).await.unwrap();
    assert_eq!(retry.unwrap(), "1");
    assert_eq!(
        (&message["kind"], &message["reason"]),
        (&"Status".into(), &"TooManyRequests".into()),
        "{message}"
    );
    // Reads have a separate limit, and administrators are exempt.
    assert_eq!(jane.get(&maps).send().await.unwrap().status(), 200);
    let admin = master.data_dir().join("admin.kubeconfig");
    let made = master.kubectl(&admin, &["create", "configmap", "of-the-admin"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(master.get_as_admin("/livez").await.0, 200);
    for one in crowd {
        one.abort();
    }
    let look = async || match write("later").await? {
        (201 | 409, ..) => Ok(()),
        (code, ..) => Err(format!("it was answered {code}")),
    };
    wait_until(Duration::from_secs(20), look).await.unwrap();
}
