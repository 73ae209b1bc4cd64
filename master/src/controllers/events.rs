//! Events are forgotten an hour after they last happened.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::agenda::Next;
use super::client::{Client, Delete, Error, Kind};
use super::object::Object;
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "event-ttl-controller";
/// How long an event is kept; the stock server's `--event-ttl`.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Events that go in one sweep at least, and the pause after it: fifty a second, so that a storm of events long ago does not
/// take the store from those who work now.
const SWEEP: usize = 100;
const PAUSE: Duration = Duration::from_secs(2);
/// Of what is due, one in so many goes in a sweep: however many happen, what is due is never much more than those of a minute.
const SHARE: usize = 30;
/// Most events that go in one sweep, so that a look comes to its end.
const SWEEP_MAX: usize = 10_000;
/// Events that are deleted at once: enough for the store to write several in one commit.
const AT_ONCE: usize = 8;
/// The shortest pause while nothing is due yet, so that events go by the dozen and not one by one.
const GATHER: Duration = Duration::from_secs(30);
/// The one thing that is looked at: all events.
const ALL: &str = "events";

/// The controller.
#[derive(Debug)]
pub struct Expiry {
    client: Client,
    world: World,
}

impl Expiry {
    /// Sweeps the events of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }
}

/// When an event last happened, where its times were kept.
pub fn happened(event: &Object) -> Option<Timestamp> {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
    let read = |text: &str| text.parse::<Timestamp>().ok();
    let told = times.iter().filter_map(|path| event.kept(path).and_then(Value::as_str).and_then(read));
    told.max().or_else(|| read(&event.created))
}

/// Which of these events go now, the oldest first, and how long until the next look.
fn plan<'a>(events: impl Iterator<Item = &'a Object>, now: Timestamp) -> (Vec<&'a Object>, Option<Duration>) {
    let kept = SignedDuration::try_from(KEPT).unwrap_or(SignedDuration::ZERO);
    let (mut due, mut next) = (Vec::new(), None::<Duration>);
    for event in events.filter(|event| !event.is_ending) {
        // An event without a time is none that we can judge.
        let Some(at) = happened(event) else { continue };
        match Duration::try_from(kept - now.duration_since(at)) {
            Ok(left) if !left.is_zero() => next = Some(next.map_or(left, |next| next.min(left))),
            _ => due.push((at, event)),
        }
    }
    let mut next = next.map(|next| next.max(GATHER));
    let sweep = (due.len() / SHARE).clamp(SWEEP, SWEEP_MAX);
    if due.len() > sweep {
        next = Some(PAUSE);
        due.select_nth_unstable_by_key(sweep, |(at, _)| *at);
        due.truncate(sweep);
    }
    (due.into_iter().map(|(_, event)| event).collect(), next)
}

impl Expiry {
    async fn delete(&self, event: &Object) -> Result<(), Error> {
        let how = Delete { uid: Some(&event.uid), revision: Some(&event.revision), ..Delete::default() };
        match self.client.delete(&Kind::EVENT, &event.namespace, &event.name, &how).await {
            // It is gone, or it happened again.
            Err(error) if error.is_conflict() => Ok(()),
            answer => answer,
        }
    }
}

#[async_trait]
impl Controller for Expiry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::EVENT) && change.before.is_none() {
            // One that was there before this controller began may be due at any time.
            let is_old = change
                .now
                .as_deref()
                .and_then(happened)
                .is_none_or(|at| Timestamp::now().duration_since(at) > SignedDuration::from_secs(60));
            queue.add_in(ALL, if is_old { PAUSE } else { KEPT });
        }
    }

    async fn look(&self, _: &str, _: &Queue) -> Result<Next, Error> {
        let events = self.world.list(&Kind::EVENT, "");
        let (due, next) = plan(events.iter().map(AsRef::as_ref), Timestamp::now());
        for some in due.chunks(AT_ONCE) {
            let mut deleted = Vec::with_capacity(AT_ONCE);
            for event in some {
                deleted.push(self.delete(event));
            }
            join_all(deleted).await.into_iter().collect::<Result<(), Error>>()?;
        }
        Ok(next.map_or(Next::Change, Next::In))
    }
}

#[cfg(test)]
mod tests {
    //! Events in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn event(fields: Value) -> Object {
        let mut event = fields.as_object().unwrap().clone();
        event
            .insert("metadata".to_owned(), json!({"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"}));
        Object::of("events", &event)
    }

    #[test]
    fn an_event_goes_an_hour_after_it_last_happened() {
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
    fn more_go_the_more_are_due_the_oldest_first() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        for (count, expected) in [
            (SWEEP, SWEEP),
            (SWEEP + 1, SWEEP),
            (SWEEP * SHARE * 2, SWEEP * 2),
            (SWEEP * SHARE * 5, SWEEP * 5),
        ] {
            let at = |second: usize| now - SignedDuration::from_secs(20_000 + i64::try_from(second).unwrap());
            let many: Vec<Object> =
                (0..count).map(|second| event(json!({"lastTimestamp": at(second).to_string()}))).collect();
            let (due, next) = plan(many.iter(), now);
            assert_eq!((due.len(), next), (expected, (count > expected).then_some(PAUSE)));
            assert!(due.iter().all(|event| happened(event) <= Some(at(count - expected))));
        }
    }
}
