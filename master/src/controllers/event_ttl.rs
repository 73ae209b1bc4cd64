//! The event TTL controller: deletes events one hour after their last occurrence.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Kind};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::fields::Fields;
use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "event-ttl-controller";
/// How long an event is kept, the default of the stock `--event-ttl`.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);
/// Minimum batch size. With the pause between batches, this is 50 deletions per second, so that a backlog of old
/// events does not overload the store.
const MIN_BATCH: usize = 100;
/// Pause between two batches.
const BATCH_PAUSE: Duration = Duration::from_secs(2);
/// Divisor of the backlog. A batch deletes at least this part of the due events, so that the backlog stays below
/// about one minute of events.
const BATCH_FRACTION: usize = 30;
/// Maximum batch size, so that a reconciliation ends.
const MAX_BATCH: usize = 10_000;
/// Number of concurrent deletions, so that the store can write several in one commit.
const CONCURRENT_DELETES: usize = 8;
/// Minimum interval between batches while no event is due yet, so that events are deleted in batches.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// The only key of the work queue. It stands for all events.
const ALL: &str = "events";

#[derive(Debug)]
pub struct EventTtlController {
    client: Client,
    informers: SharedInformers,
}

impl EventTtlController {
    /// Creates the controller. It deletes expired events of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }
}

/// Returns the time of the last occurrence of an event, or of its creation if it has no other time.
fn last_occurrence(event: &Object) -> Option<Timestamp> {
    let own = match event.fields {
        Fields::Event { last_occurrence } => last_occurrence,
        _ => None,
    };
    own.or(event.creation_timestamp)
}

/// Returns the expired events to delete now, oldest first, and the time until the next batch.
fn plan<'a>(events: impl Iterator<Item = &'a Object>, now: Timestamp) -> (Vec<&'a Object>, Option<Duration>) {
    let kept = SignedDuration::try_from(EVENT_TTL).unwrap_or(SignedDuration::ZERO);
    let (mut due, mut next) = (Vec::new(), None::<Duration>);
    for event in events.filter(|event| !event.is_terminating) {
        // An event without a time is kept.
        let Some(at) = last_occurrence(event) else { continue };
        match Duration::try_from(kept - now.duration_since(at)) {
            Ok(left) if !left.is_zero() => next = Some(next.map_or(left, |next| next.min(left))),
            _ => due.push((at, event)),
        }
    }
    let mut next = next.map(|next| next.max(MIN_INTERVAL));
    let batch = (due.len() / BATCH_FRACTION).clamp(MIN_BATCH, MAX_BATCH);
    if due.len() > batch {
        next = Some(BATCH_PAUSE);
        due.select_nth_unstable_by_key(batch, |(at, _)| *at);
        due.truncate(batch);
    }
    (due.into_iter().map(|(_, event)| event).collect(), next)
}

impl EventTtlController {
    async fn delete(&self, event: &Object) -> Result<(), Error> {
        let how = DeleteOptions {
            uid: Some(&event.uid),
            resource_version: Some(&event.resource_version),
            ..DeleteOptions::default()
        };
        match self.client.delete(&Kind::EVENT, &event.namespace, &event.name, &how).await {
            // The event was deleted or occurred again.
            Err(error) if error.is_conflict() => Ok(()),
            answer => answer,
        }
    }
}

#[async_trait]
impl Controller for EventTtlController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::EVENT) && change.before.is_none() {
            // An event from before the controller started may be due already.
            let is_old = change
                .now
                .as_deref()
                .and_then(last_occurrence)
                .is_none_or(|at| Timestamp::now().duration_since(at) > SignedDuration::from_secs(60));
            queue.add_in(ALL, if is_old { BATCH_PAUSE } else { EVENT_TTL });
        }
    }

    async fn reconcile(&self, _: &str, _: &WorkQueue) -> Result<Action, Error> {
        let events = self.informers.list(&Kind::EVENT, "");
        let (due, next) = plan(events.iter().map(AsRef::as_ref), Timestamp::now());
        for some in due.chunks(CONCURRENT_DELETES) {
            let mut deleted = Vec::with_capacity(CONCURRENT_DELETES);
            for event in some {
                deleted.push(self.delete(event));
            }
            join_all(deleted).await.into_iter().collect::<Result<(), Error>>()?;
        }
        Ok(next.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of expiry of events.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn event(fields: Value) -> Object {
        let mut event = fields.as_object().unwrap().clone();
        event
            .insert("metadata".to_owned(), json!({"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"}));
        Object::decode("events", &event).unwrap()
    }

    #[test]
    fn an_event_is_deleted_an_hour_after_its_last_occurrence() {
        let now: Timestamp = "2026-01-01T03:00:00Z".parse().unwrap();
        for (fields, is_due) in [
            (json!({}), true),
            (json!({"lastTimestamp": "2026-01-01T01:59:59Z"}), true),
            (json!({"lastTimestamp": "2026-01-01T02:00:01Z"}), false),
            (json!({"lastTimestamp": null, "eventTime": "2026-01-01T02:30:00.000000Z"}), false),
            (
                json!({"eventTime": "2026-01-01T00:30:00Z", "series": {"lastObservedTime": "2026-01-01T02:30:00Z"}}),
                false,
            ),
            (json!({"lastTimestamp": "2026-01-01T04:00:00Z"}), false),
        ] {
            let event = event(fields.clone());
            let (found, after) = plan([&event].into_iter(), now);
            assert_eq!(found.len() == 1, is_due, "{fields}");
            assert_eq!(after.is_none(), is_due, "{fields}");
        }
    }

    #[test]
    fn a_larger_backlog_is_deleted_in_larger_batches_the_oldest_first() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        for (count, expected) in [
            (MIN_BATCH, MIN_BATCH),
            (MIN_BATCH + 1, MIN_BATCH),
            (MIN_BATCH * BATCH_FRACTION * 2, MIN_BATCH * 2),
            (MIN_BATCH * BATCH_FRACTION * 5, MIN_BATCH * 5),
        ] {
            let at = |second: usize| now - SignedDuration::from_secs(20_000 + i64::try_from(second).unwrap());
            let many: Vec<Object> =
                (0..count).map(|second| event(json!({"lastTimestamp": at(second).to_string()}))).collect();
            let (due, next) = plan(many.iter(), now);
            assert_eq!((due.len(), next), (expected, (count > expected).then_some(BATCH_PAUSE)));
            assert!(due.iter().all(|event| last_occurrence(event) <= Some(at(count - expected))));
        }
    }
}
