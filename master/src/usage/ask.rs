//! What one node has said, and when it is asked again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::tell::{Counts, Window};

/// An answer that is younger will do.
const FRESH: Duration = Duration::from_secs(10);
/// What was used since an answer that is older says little of now.
const OF_USE: Duration = Duration::from_secs(60);
/// Between two answers where there is none to begin with. Shorter ones say little of what comes and goes.
const APART: Duration = Duration::from_secs(1);

/// What a node has said, or why it has not. Who asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub struct Asked(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    at: Instant,
    said: Result<Window, String>,
}

impl Asked {
    /// Whether what it has said can be the beginning of what it uses now.
    pub fn is_of_use(&self) -> bool {
        let kept = self.0.try_lock();
        kept.is_ok_and(|kept| kept.as_ref().is_some_and(|kept| kept.at.elapsed() < OF_USE))
    }

    /// What the node has used of late.
    ///
    /// # Errors
    /// Why it does not say so.
    pub async fn window<F>(&self, ask: impl Fn() -> F) -> Result<Window, String>
    where
        F: Future<Output = Result<Counts, String>>,
    {
        let mut kept = self.0.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.at.elapsed() < FRESH) {
            return kept.said.clone();
        }
        let before = kept.take().filter(|kept| kept.at.elapsed() < OF_USE);
        let before = before.and_then(|kept| Some((kept.at, kept.said.ok()?.now)));
        let said = look(before, ask).await;
        let at = said.as_ref().map_or_else(|_| Instant::now(), |(at, _)| *at);
        let said = said.map(|(_, window)| window);
        *kept = Some(Kept { at, said: said.clone() });
        said
    }
}

/// What was used since what is known, or within a short while from now, and when that ended.
async fn look<F>(
    known: Option<(Instant, Arc<Counts>)>,
    ask: impl Fn() -> F,
) -> Result<(Instant, Window), String>
where
    F: Future<Output = Result<Counts, String>>,
{
    let (since, before) = match known {
        Some(known) => known,
        None => {
            let first = answer(ask()).await?;
            sleep(APART).await;
            first
        }
    };
    let (at, now) = answer(ask()).await?;
    Ok((at, Window { before, now, lasts: at - since }))
}

async fn answer(
    asking: impl Future<Output = Result<Counts, String>>,
) -> Result<(Instant, Arc<Counts>), String> {
    let counts = asking.await?;
    Ok((Instant::now(), Arc::new(counts)))
}
