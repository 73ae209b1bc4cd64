//! (e) Measures many watches of all pods while the pods change at a steady rate: the throughput and the delay of
//! events.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{MissedTickBehavior, interval};

use crate::arguments::Arguments;
use crate::client::Way;
use crate::objects::{AT, PODS, patch};
use crate::shared::table::Table;

/// Minimum events delivered per second.
const TARGET: f64 = 100_000.0;
/// Maximum delay at the 99th percentile, in milliseconds after the change was requested.
const LATE_TARGET: f64 = 20.0;
/// Rate of events to reach, as a multiple of the target: a tenth more than the target needs.
const PACE: f64 = 1.1;
/// Number of clients that change pods.
const WRITERS: usize = 16;
/// One in this many watches measures delays; the others only count events.
const MEASURED: usize = 10;

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, way: &Way, table: &mut Table) {
    let watchers = arguments.watchers;
    let pace = TARGET * PACE / watchers as f64;
    let delivered = deliver(way, watchers, arguments.pods, pace.min(2000.0), arguments.window).await;
    let detail = format!(
        "{watchers} watches, {:.0} changes/s of {:.0} asked for",
        delivered.changes,
        pace.min(2000.0)
    );
    table.at_least("(e) deliveries", TARGET, delivered.rate, " /s", detail);
    let late = format!("{:.1} ms for half of them, from asking for the change", delivered.late_ms(0.5));
    table.at_most("(e) how late, 99 of 100", LATE_TARGET, delivered.late_ms(0.99), " ms", late);
}

/// Results of a delivery test.
pub struct Delivered {
    /// Events per second, over all watches.
    pub rate: f64,
    /// Changes per second.
    pub changes: f64,
    late_micros: Vec<u128>,
}

impl Delivered {
    /// Returns the delay that the given share of events does not exceed.
    pub fn late_ms(&self, share: f64) -> f64 {
        let place = (self.late_micros.len() as f64 * share) as usize;
        self.late_micros.get(place).map_or(f64::NAN, |micros| *micros as f64 / 1e3)
    }
}

/// Watches all pods while they change at the given rate.
pub async fn deliver(way: &Way, watchers: usize, pods: usize, pace: f64, window: Duration) -> Delivered {
    let epoch = Instant::now();
    let mut watching = Vec::new();
    let from = revision(way).await;
    for number in 0..watchers {
        let mut connection = way.connect().await.unwrap();
        let path = format!("/api/v1/pods?watch=true&resourceVersion={from}");
        let (code, body) = connection.begin(Method::GET, &path, "").await.unwrap();
        assert_eq!(code, 200);
        let measures = number % MEASURED == 0;
        watching.push(tokio::spawn(async move {
            let seen = watch(body, epoch, measures).await;
            drop(connection);
            seen
        }));
    }
    let begun = Instant::now();
    let changed = change(way, pods, pace, window, epoch).await;
    let seconds = begun.elapsed().as_secs_f64();
    let (mut events, mut late_micros) = (0, Vec::new());
    for watching in watching {
        let (seen, late) = watching.await.unwrap();
        events += seen;
        late_micros.extend(late);
    }
    late_micros.sort_unstable();
    Delivered { rate: events as f64 / seconds, changes: changed as f64 / seconds, late_micros }
}

/// Reads a watch until no event arrives for [`SILENCE`].
async fn watch(mut body: Incoming, epoch: Instant, measures: bool) -> (u64, Vec<u128>) {
    /// How long a watch waits for the next event. On a machine that can reach the target, every delay is shorter.
    const SILENCE: Duration = Duration::from_secs(3);

    let (mut events, mut late, mut rest) = (0, Vec::new(), Vec::new());
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await {
        let Ok(data) = frame.into_data() else { continue };
        let now = epoch.elapsed().as_micros();
        events += data.iter().filter(|byte| **byte == b'\n').count() as u64;
        if measures {
            measure_lines(&mut rest, &data, |sent_at| late.push(now.saturating_sub(sent_at)));
        }
    }
    (events, late)
}

/// Finds the send times in complete lines. An incomplete last line stays in `rest` until the next chunk arrives.
fn measure_lines(rest: &mut Vec<u8>, data: &Bytes, mut found: impl FnMut(u128)) {
    rest.extend_from_slice(data);
    let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { return };
    let whole: Vec<u8> = rest.drain(..=end).collect();
    for line in whole.split(|byte| *byte == b'\n') {
        let Some(place) = line.windows(AT.len()).position(|window| window == AT) else { continue };
        let digits = line[place + AT.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        found(digits.fold(0, |number, digit| number * 10 + u128::from(digit - b'0')));
    }
}

/// Changes pods at the given rate. Returns the number of changes.
async fn change(way: &Way, pods: usize, pace: f64, window: Duration, epoch: Instant) -> usize {
    let begun = Instant::now();
    let mut running = Vec::new();
    for writer in 0..WRITERS {
        let mut connection = way.connect().await.unwrap();
        running.push(tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs_f64(WRITERS as f64 / pace));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut done = 0;
            while begun.elapsed() < window {
                ticks.tick().await;
                let path = format!("{PODS}/pod-{}", (done * WRITERS + writer) % pods);
                let body = patch(epoch.elapsed().as_micros());
                let (code, answer) = connection.exchange(Method::PATCH, &path, &body).await.unwrap();
                assert!(code == 200, "{code}: {}", String::from_utf8_lossy(&answer));
                done += 1;
            }
            done
        }));
    }
    let mut done = 0;
    for running in running {
        done += running.await.unwrap();
    }
    done
}

/// Current resource version of the store.
async fn revision(way: &Way) -> u64 {
    let (_, list) =
        way.connect().await.unwrap().exchange(Method::GET, "/api/v1/pods?limit=1", "").await.unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
