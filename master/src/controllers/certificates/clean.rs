//! Requests go when nobody needs them any more: an hour after they were decided, a day after they were made.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::{CLEANING, KIND, condition, is_signed, pem};
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Delete, Error, Json};
use crate::controllers::object::{at, text};
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::Change;
use crate::pki;

/// How long one is kept that was signed, denied or failed, or that was approved and nobody signs; as the stock cleaner does.
const DECIDED: Duration = Duration::from_secs(60 * 60);
/// How long one is kept that nobody decides on.
const UNDECIDED: Duration = Duration::from_secs(24 * 60 * 60);

/// The controller.
#[derive(Debug)]
pub struct Cleaner {
    client: Client,
}

impl Cleaner {
    /// Deletes through that client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// When a request is to go; `None` for one without times, which nobody can judge.
pub(super) fn due(request: &Json) -> Option<Timestamp> {
    let created: Option<Timestamp> = text(at(request, "/metadata/creationTimestamp")).parse().ok();
    let after = |from: Option<Timestamp>, kept: Duration| {
        let kept = SignedDuration::try_from(kept).ok()?;
        from.or(created)?.checked_add(kept).ok()
    };
    // The first that was decided of several counts.
    let decided = ["Approved", "Denied", "Failed"].into_iter().filter_map(|kind| condition(request, kind));
    let decided = decided.filter_map(|at| after(at, DECIDED)).min();
    let ended = is_signed(request).then(|| pki::lives(&pem(request, "/status/certificate")).ok()).flatten();
    let ended = ended.and_then(|lives| lives.first().map(|life| life.until));
    decided.into_iter().chain(ended).min().or_else(|| after(None, UNDECIDED))
}

#[async_trait]
impl Controller for Cleaner {
    fn name(&self) -> &'static str {
        CLEANING
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if let (true, Some(request)) = (change.kind.is(&KIND), &change.now) {
            queue.add(&request.name);
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(request) = self.client.find(&KIND, "", name).await? else { return Ok(Next::Change) };
        let Some(due) = due(&request) else { return Ok(Next::Change) };
        let left = due.duration_since(Timestamp::now());
        if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
            return Ok(Next::In(left));
        }
        let (uid, revision) =
            (text(at(&request, "/metadata/uid")), text(at(&request, "/metadata/resourceVersion")));
        let how = Delete { uid: Some(&uid), revision: Some(&revision), ..Delete::default() };
        self.client.delete(&KIND, "", name, &how).await?;
        Ok(Next::Change)
    }
}
