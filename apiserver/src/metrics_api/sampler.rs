//! Samples the stats of one node and caches the result.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::summary::{Counts, Window};

/// Age up to which a result is returned again.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// Age up to which a sample is used as the start of a window.
const USABLE_FOR: Duration = Duration::from_secs(60);
/// Time between two samples if there is no earlier one. Shorter windows give noisy results.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The last result of a node. Concurrent callers wait for the same sample.
#[derive(Debug, Default)]
pub struct NodeSampler(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    at: Instant,
    result: Result<Window, String>,
}

impl NodeSampler {
    /// True if the last sample can be the start of the next window.
    pub fn is_usable(&self) -> bool {
        let kept = self.0.try_lock();
        kept.is_ok_and(|kept| kept.as_ref().is_some_and(|kept| kept.at.elapsed() < USABLE_FOR))
    }

    /// The usage in the most recent window.
    ///
    /// # Errors
    /// If the kubelet cannot be queried.
    pub async fn window<F>(&self, fetch: impl Fn() -> F) -> Result<Window, String>
    where
        F: Future<Output = Result<Counts, String>>,
    {
        let mut kept = self.0.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.at.elapsed() < FRESH_FOR) {
            return kept.result.clone();
        }
        let before = kept.take().filter(|kept| kept.at.elapsed() < USABLE_FOR);
        let before = before.and_then(|kept| Some((kept.at, kept.result.ok()?.now)));
        let result = sample(before, fetch).await;
        let at = result.as_ref().map_or_else(|_| Instant::now(), |(at, _)| *at);
        let result = result.map(|(_, window)| window);
        *kept = Some(Kept { at, result: result.clone() });
        result
    }
}

/// Takes the missing samples. Returns the window and the time of its end.
async fn sample<F>(
    known: Option<(Instant, Arc<Counts>)>,
    fetch: impl Fn() -> F,
) -> Result<(Instant, Window), String>
where
    F: Future<Output = Result<Counts, String>>,
{
    let (since, before) = match known {
        Some(known) => known,
        None => {
            let first = answer(fetch()).await?;
            sleep(SAMPLE_INTERVAL).await;
            first
        }
    };
    let (at, now) = answer(fetch()).await?;
    Ok((at, Window { before, now, duration: at - since, end: Timestamp::now() }))
}

async fn answer(
    asking: impl Future<Output = Result<Counts, String>>,
) -> Result<(Instant, Arc<Counts>), String> {
    let counts = asking.await?;
    Ok((Instant::now(), Arc::new(counts)))
}
