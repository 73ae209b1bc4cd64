//! The CSR cleaner: deletes requests one hour after the decision, and undecided ones after a day.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error};
use jiff::{SignedDuration, Timestamp};

use super::{CLEANING, KIND};
use crate::controllers::informers::Change;
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::CertificateSigningRequest;
use crate::pki;

/// How long decided requests are kept, as in the stock cleaner.
const DECIDED_TTL: Duration = Duration::from_secs(60 * 60);
/// How long undecided requests are kept.
const PENDING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct CsrCleanerController {
    client: Client,
}

impl CsrCleanerController {
    /// Creates the controller. It deletes requests with the given client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// Returns the time to delete a request, or `None` if the request has no usable times.
pub(super) fn due(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let created = request.metadata.creation_timestamp;
    let after = |from: Option<Timestamp>, kept: Duration| {
        let kept = SignedDuration::try_from(kept).ok()?;
        from.or(created)?.checked_add(kept).ok()
    };
    // The earliest decision counts.
    let decided = ["Approved", "Denied", "Failed"]
        .into_iter()
        .filter_map(|kind| request.status.conditions.of_type(kind));
    let decided = decided.filter_map(|decision| after(decision.last_update_time, DECIDED_TTL)).min();
    let ended = request.is_signed().then(|| pki::validities(&request.certificate()).ok()).flatten();
    let ended = ended.and_then(|lives| lives.first().map(|life| life.until));
    decided.into_iter().chain(ended).min().or_else(|| after(None, PENDING_TTL))
}

#[async_trait]
impl Controller for CsrCleanerController {
    fn name(&self) -> &'static str {
        CLEANING
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if let (true, Some(request)) = (change.kind.is(&KIND), &change.now) {
            queue.add(&request.name);
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let request: Option<CertificateSigningRequest> = self.client.find_as(&KIND, "", name).await?;
        let Some(request) = request else { return Ok(Action::AwaitChange) };
        let Some(due) = due(&request) else { return Ok(Action::AwaitChange) };
        let left = due.duration_since(Timestamp::now());
        if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
            return Ok(Action::RequeueAfter(left));
        }
        let how = DeleteOptions {
            uid: Some(&request.metadata.uid),
            resource_version: Some(&request.metadata.resource_version),
            ..DeleteOptions::default()
        };
        self.client.delete(&KIND, "", name, &how).await?;
        Ok(Action::AwaitChange)
    }
}
