//! Queue of events for the API server. It contains the latest version of each event, in the order of arrival.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::Notify;

/// Maximum number of queued events. The node's own API shows as many. Beyond it the oldest event is dropped.
const WAITING: usize = 1000;

/// An Event object.
pub type Event = Map<String, Value>;

/// The queue of events.
#[derive(Debug, Default)]
pub struct Events {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<(String, String)>,
    latest: HashMap<(String, String), Event>,
    lost: u64,
}

impl Events {
    /// Adds an event, or replaces its earlier version.
    pub fn put(&self, event: Event) {
        let Some(name) = name(&event) else { return };
        let mut waiting = self.lock();
        if waiting.latest.insert(name.clone(), event).is_none() {
            waiting.order.push_back(name);
        }
        if waiting.order.len() > WAITING
            && let Some(oldest) = waiting.order.pop_front()
        {
            waiting.latest.remove(&oldest);
            waiting.lost += 1;
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The oldest event, which stays in the queue.
    pub fn first(&self) -> Option<Event> {
        let waiting = self.lock();
        waiting.latest.get(waiting.order.front()?).cloned()
    }

    /// Removes an event that was posted. If it has changed since, it moves to the end of the queue.
    pub fn remove_posted(&self, event: &Event) {
        let Some(name) = name(event) else { return };
        let mut waiting = self.lock();
        waiting.order.retain(|other| *other != name);
        if waiting.latest.get(&name) == Some(event) {
            waiting.latest.remove(&name);
        } else if waiting.latest.contains_key(&name) {
            waiting.order.push_back(name);
        }
    }

    /// Moves an event that could not be posted to the end of the queue.
    pub fn requeue(&self, event: &Event) {
        let Some(name) = name(event) else { return };
        let mut waiting = self.lock();
        if waiting.latest.contains_key(&name) {
            waiting.order.retain(|other| *other != name);
            waiting.order.push_back(name);
        }
    }

    /// The number of dropped events since the last call.
    pub fn lost(&self) -> u64 {
        std::mem::take(&mut self.lock().lost)
    }

    /// Waits for new events.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespace and name.
fn name(event: &Event) -> Option<(String, String)> {
    let part = |name: &str| Some(event.get("metadata")?.get(name)?.as_str()?.to_owned());
    Some((part("namespace")?, part("name")?))
}

#[cfg(test)]
mod tests {
    //! Tests of order of the queue, and its limit.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn event(name: usize, count: u32) -> Event {
        let event = json!({"metadata": {"namespace": "default", "name": name.to_string()}, "count": count});
        event.as_object().unwrap().clone()
    }

    #[test]
    fn the_latest_event_of_each_series_is_kept_and_the_oldest_is_evicted() {
        let events = Events::default();
        for one in [event(1, 1), event(2, 1), event(1, 2)] {
            events.put(one);
        }
        assert_eq!(events.first(), Some(event(1, 2)));
        // The event changed while it was being posted.
        events.put(event(1, 3));
        events.remove_posted(&event(1, 2));
        assert_eq!(events.first(), Some(event(2, 1)));
        events.remove_posted(&event(2, 1));
        assert_eq!(events.first(), Some(event(1, 3)));
        events.requeue(&event(1, 3));
        assert_eq!(events.first(), Some(event(1, 3)), "there is no other");
        events.put(event(4, 1));
        events.requeue(&event(1, 3));
        assert_eq!(events.first(), Some(event(4, 1)));
        events.remove_posted(&event(4, 1));
        events.remove_posted(&event(1, 3));
        events.requeue(&event(1, 3));
        assert_eq!((events.first(), events.lost()), (None, 0));
        for name in 0..WAITING + 3 {
            events.put(event(name, 1));
        }
        assert_eq!((events.first(), events.lost(), events.lost()), (Some(event(3, 1)), 3, 0));
    }
}
