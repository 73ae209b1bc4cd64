//! Event correlator: aggregates similar events, counts repeats, limits the rate per object, and expires old events.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::pods::rfc3339;
use crate::report::{About, Note, Severity};

/// Lifetime of an event after its last occurrence, as in the stock API server.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);
/// Maximum number of events that are kept. The oldest one is removed first. The creation of 100 pods records about
/// 500.
const EVENTS: usize = 1000;
/// Burst of Normal events, and of repeated Warnings, per object; as in the stock recorder.
const BURST: f64 = 25.0;
/// Interval after which one more Normal event is allowed; as in the stock recorder.
const REFILL: Duration = Duration::from_secs(300);
/// Interval after which one more repeated Warning is allowed. It is the first restart back-off, so that a failure
/// that persists stays visible.
const WARNING_REFILL: Duration = Duration::from_secs(10);
/// Number of different messages with one reason before they are aggregated; as in the stock recorder.
const SIMILAR: usize = 10;
/// Time window of the aggregation; as in the stock recorder.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Prefix of the latest message of aggregated events; as in the stock recorder.
const COMBINED: &str = "(combined from similar events): ";

/// The identity of an event, by which its repetitions are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    about: About,
    severity: &'static str,
    reason: Cow<'static, str>,
    /// The message; empty for aggregated messages.
    message: String,
}

#[derive(Debug)]
struct RecordedEvent {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// Events with the same object and reason whose messages differ. Many of them are combined into one event.
#[derive(Debug)]
struct SimilarMessages {
    messages: Vec<String>,
    last: Timestamp,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl Bucket {
    fn full(at: Timestamp) -> Self {
        Self { tokens: BURST, at }
    }

    /// Takes a token. Returns false if none is left.
    fn take(&mut self, at: Timestamp, refill: Duration) -> bool {
        let refilled = at.duration_since(self.at).as_secs_f64().max(0.0) / refill.as_secs_f64();
        self.tokens = (self.tokens + refilled).min(BURST);
        self.at = at;
        let passes = self.tokens >= 1.0;
        if passes {
            self.tokens -= 1.0;
        }
        passes
    }
}

/// Rate limits of one version of an object. A new Warning always passes, because [`SIMILAR`] limits their number.
#[derive(Debug)]
struct Budget {
    normal: Bucket,
    repeated_warnings: Bucket,
}

/// The event correlator of this node.
#[derive(Debug)]
pub struct EventCorrelator {
    node: String,
    shown: HashMap<EventKey, RecordedEvent>,
    /// Events by their last occurrence, oldest first. An entry is stale if its event has occurred again.
    order: VecDeque<(Timestamp, EventKey)>,
    similar: HashMap<(About, &'static str, Cow<'static, str>), SimilarMessages>,
    /// Rate limits by UID of the object.
    budgets: HashMap<String, Budget>,
    last_name: i128,
}

impl EventCorrelator {
    /// Creates an empty correlator. `node` is the host in the event source.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            shown: HashMap::new(),
            order: VecDeque::new(),
            similar: HashMap::new(),
            budgets: HashMap::new(),
            last_name: 0,
        }
    }

    /// Records an event. Returns the Event object, or `None` if the rate limit is exceeded.
    pub fn record(&mut self, note: &Note) -> Option<Map<String, Value>> {
        let severity = match note.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let own = self.is_individual(note, severity);
        let message = if own { note.message.clone() } else { String::new() };
        let event_key =
            EventKey { about: note.about.clone(), severity, reason: note.reason.clone(), message };
        if !self.passes(note, &event_key) {
            return None;
        }
        if !self.shown.contains_key(&event_key) {
            let name = self.new_name(&note.about.name, note.at);
            let event = RecordedEvent { name, count: 0, first: note.at, last: note.at };
            self.shown.insert(event_key.clone(), event);
        }
        let event = self.shown.get_mut(&event_key)?;
        event.count += 1;
        event.last = note.at;
        let message = if own { note.message.clone() } else { format!("{COMBINED}{}", note.message) };
        let object = object(&self.node, &event_key, event, &message);
        self.order.push_back((note.at, event_key));
        Some(object)
    }

    /// Restores an event of an earlier kubelet process. `None` if it has expired, or this kubelet did not record
    /// it.
    pub fn restore(&mut self, object: &Map<String, Value>, now: Timestamp) -> Option<Map<String, Value>> {
        let text = |of: &Value, name: &str| of.get(name)?.as_str().map(str::to_owned);
        let time = |name: &str| object.get(name)?.as_str()?.parse::<Timestamp>().ok();
        let involved = object.get("involvedObject")?;
        let about = About {
            kind: ["Pod", "Node"].into_iter().find(|kind| text(involved, "kind").as_deref() == Some(kind))?,
            namespace: text(involved, "namespace").unwrap_or_default(),
            name: text(involved, "name")?,
            uid: text(involved, "uid")?,
            field_path: text(involved, "fieldPath").unwrap_or_default(),
        };
        let severity =
            ["Normal", "Warning"].into_iter().find(|kind| object.get("type").is_some_and(|is| is == kind))?;
        let shown = RecordedEvent {
            name: text(object.get("metadata")?, "name")?,
            count: u32::try_from(object.get("count")?.as_u64()?).ok()?,
            first: time("firstTimestamp")?,
            last: time("lastTimestamp")?,
        };
        if is_older(shown.last, TIME_TO_LIVE, now) {
            return None;
        }
        let reason = object.get("reason")?.as_str()?.to_owned().into();
        let message = object.get("message")?.as_str()?;
        let individual_message = if message.starts_with(COMBINED) { "" } else { message };
        let event_key = EventKey { about, severity, reason, message: individual_message.to_owned() };
        let again = self::object(&self.node, &event_key, &shown, message);
        self.order.push_back((shown.last, event_key.clone()));
        self.shown.insert(event_key, shown);
        Some(again)
    }

    /// Removes expired and excess events. Returns their namespaces and names.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut expired = Vec::new();
        while let Some((at, event_key)) = self.order.front() {
            let overtaken = self.shown.get(event_key).is_none_or(|event| event.last != *at);
            if !overtaken && self.shown.len() <= EVENTS && !is_older(*at, TIME_TO_LIVE, now) {
                break;
            }
            let Some((_, event_key)) = self.order.pop_front() else { break };
            if !overtaken && let Some(event) = self.shown.remove(&event_key) {
                expired.push((namespace(&event_key.about).to_owned(), event.name));
            }
        }
        self.similar.retain(|_, similar| !is_older(similar.last, SIMILAR_WITHIN, now));
        // After this time without use a bucket is full.
        let full_after = REFILL.mul_f64(BURST);
        self.budgets.retain(|_, budget| {
            let last = budget.normal.at.max(budget.repeated_warnings.at);
            !is_older(last, full_after, now)
        });
        expired
    }

    /// Time until the oldest event expires, or `None` without events.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Duration> {
        let (oldest, _) = self.order.front()?;
        let age = Duration::try_from(now.duration_since(*oldest)).unwrap_or_default();
        // One second more, to be past the expiry time.
        Some(TIME_TO_LIVE.saturating_sub(age) + Duration::from_secs(1))
    }

    /// Resets the rate limits of an edited object.
    pub fn edited(&mut self, uid: &str) {
        self.budgets.remove(uid);
    }

    fn passes(&mut self, note: &Note, event_key: &EventKey) -> bool {
        let full = || Budget { normal: Bucket::full(note.at), repeated_warnings: Bucket::full(note.at) };
        let budget = self.budgets.entry(note.about.uid.clone()).or_insert_with(full);
        match note.severity {
            Severity::Normal => budget.normal.take(note.at, REFILL),
            Severity::Warning => {
                !self.shown.contains_key(event_key) || budget.repeated_warnings.take(note.at, WARNING_REFILL)
            }
        }
    }

    /// Whether the message is recorded individually. It is not if too many different messages have the same reason.
    fn is_individual(&mut self, note: &Note, severity: &'static str) -> bool {
        let key = (note.about.clone(), severity, note.reason.clone());
        let similar =
            self.similar.entry(key).or_insert(SimilarMessages { messages: Vec::new(), last: note.at });
        if is_older(similar.last, SIMILAR_WITHIN, note.at) {
            similar.messages.clear();
        }
        similar.last = note.at;
        if similar.messages.contains(&note.message) {
            return true;
        }
        let alone = similar.messages.len() + 1 < SIMILAR;
        if alone {
            similar.messages.push(note.message.clone());
        }
        alone
    }

    /// Creates the name `<object>.<hex timestamp>`, which is unique on this node.
    fn new_name(&mut self, object: &str, at: Timestamp) -> String {
        self.last_name = at.as_nanosecond().max(self.last_name + 1);
        format!("{object}.{:x}", self.last_name)
    }
}

/// The namespace of an event. Events about cluster-scoped objects are in the namespace `default`.
fn namespace(about: &About) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

fn is_older(at: Timestamp, than: Duration, now: Timestamp) -> bool {
    SignedDuration::try_from(than).is_ok_and(|than| now.duration_since(at) > than)
}

fn object(node: &str, event_key: &EventKey, event: &RecordedEvent, message: &str) -> Map<String, Value> {
    let about = &event_key.about;
    let mut involved = Map::new();
    involved.insert("kind".to_owned(), about.kind.into());
    if !about.namespace.is_empty() {
        involved.insert("namespace".to_owned(), about.namespace.as_str().into());
    }
    involved.insert("name".to_owned(), about.name.as_str().into());
    involved.insert("uid".to_owned(), about.uid.as_str().into());
    involved.insert("apiVersion".to_owned(), "v1".into());
    if !about.field_path.is_empty() {
        involved.insert("fieldPath".to_owned(), about.field_path.as_str().into());
    }
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": event.name,
            "namespace": namespace(about),
            "creationTimestamp": rfc3339(event.first),
        },
        "involvedObject": involved,
        "reason": event_key.reason,
        "message": message,
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": rfc3339(event.first),
        "lastTimestamp": rfc3339(event.last),
        "count": event.count,
        "type": event_key.severity,
        "eventTime": null,
        "reportingComponent": "kubelet",
        "reportingInstance": node,
    });
    match event {
        Value::Object(event) => event,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
