//! Events as kubectl users know them: repeats are counted, floods are dammed, old ones expire.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::pods::rfc3339;
use crate::report::{About, Note, Severity};

/// How long an event is shown after it was last seen; the stock server's.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);
/// Events shown at once; the oldest makes room. 100 pods being born write about 500.
const EVENTS: usize = 1000;
/// Events about one object in a burst; the stock recorder's.
const BURST: f64 = 25.0;
/// After a burst one more event is let through each five minutes; the stock recorder's.
const REFILL: Duration = Duration::from_secs(300);
/// Different messages for one reason before they are told as one; the stock recorder's.
const SIMILAR: usize = 10;
/// How long similar events count as one; the stock recorder's.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Stands before the latest of many messages that are told as one; the stock recorder's.
const COMBINED: &str = "(combined from similar events): ";

/// What makes two events the same but for their time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sameness {
    about: About,
    severity: &'static str,
    reason: Cow<'static, str>,
    /// Empty for all the messages that are told as one.
    message: String,
}

/// An event that is shown.
#[derive(Debug)]
struct Shown {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// Different messages for one reason about one object.
#[derive(Debug)]
struct Similar {
    messages: Vec<String>,
    last: Timestamp,
}

/// Tokens left for events about one object.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

/// The events of this node.
#[derive(Debug)]
pub struct Events {
    node: String,
    shown: HashMap<Sameness, Shown>,
    /// Oldest sighting first; an entry whose time is not that of its event has been overtaken by a newer one.
    order: VecDeque<(Timestamp, Sameness)>,
    similar: HashMap<(About, &'static str, Cow<'static, str>), Similar>,
    buckets: HashMap<(String, String), Bucket>,
    last_name: i128,
}

impl Events {
    /// None yet; `node` is where they come from.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            shown: HashMap::new(),
            order: VecDeque::new(),
            similar: HashMap::new(),
            buckets: HashMap::new(),
            last_name: 0,
        }
    }

    /// Counts an event; the object to show, `None` when there are too many about its object.
    pub fn record(&mut self, note: &Note) -> Option<Map<String, Value>> {
        if !self.let_through(&note.about, note.at) {
            return None;
        }
        let severity = match note.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let own = self.is_told_alone(note, severity);
        let message = if own { note.message.clone() } else { String::new() };
        let sameness = Sameness { about: note.about.clone(), severity, reason: note.reason.clone(), message };
        if !self.shown.contains_key(&sameness) {
            let name = self.new_name(&note.about.name, note.at);
            let event = Shown { name, count: 0, first: note.at, last: note.at };
            self.shown.insert(sameness.clone(), event);
        }
        let event = self.shown.get_mut(&sameness)?;
        event.count += 1;
        event.last = note.at;
        let message = if own { note.message.clone() } else { format!("{COMBINED}{}", note.message) };
        let object = object(&self.node, &sameness, event, &message);
        self.order.push_back((note.at, sameness));
        Some(object)
    }

    /// Takes over an event that an earlier kubelet showed; the object to show. `None` when its time is over, or when it is
    /// none of ours.
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
        let shown = Shown {
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
        let told_alone = if message.starts_with(COMBINED) { "" } else { message };
        let sameness = Sameness { about, severity, reason, message: told_alone.to_owned() };
        let again = self::object(&self.node, &sameness, &shown, message);
        self.order.push_back((shown.last, sameness.clone()));
        self.shown.insert(sameness, shown);
        Some(again)
    }

    /// Forgets what is too old or too much; namespaces and names of the events that are shown no longer.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut expired = Vec::new();
        while let Some((at, sameness)) = self.order.front() {
            let overtaken = self.shown.get(sameness).is_none_or(|event| event.last != *at);
            if !overtaken && self.shown.len() <= EVENTS && !is_older(*at, TIME_TO_LIVE, now) {
                break;
            }
            let Some((_, sameness)) = self.order.pop_front() else { break };
            if !overtaken && let Some(event) = self.shown.remove(&sameness) {
                expired.push((namespace(&sameness.about).to_owned(), event.name));
            }
        }
        self.similar.retain(|_, similar| !is_older(similar.last, SIMILAR_WITHIN, now));
        // A bucket that has been left alone this long is full again.
        let full_after = REFILL.mul_f64(BURST);
        self.buckets.retain(|_, bucket| !is_older(bucket.at, full_after, now));
        expired
    }

    /// How long until the oldest event has had its time, `None` when there is none.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Duration> {
        let (oldest, _) = self.order.front()?;
        let age = Duration::try_from(now.duration_since(*oldest)).unwrap_or_default();
        // A second more, so that it is past its time and not just at it.
        Some(TIME_TO_LIVE.saturating_sub(age) + Duration::from_secs(1))
    }

    fn let_through(&mut self, about: &About, at: Timestamp) -> bool {
        let key = (about.uid.clone(), about.name.clone());
        let bucket = self.buckets.entry(key).or_insert(Bucket { tokens: BURST, at });
        let refilled = at.duration_since(bucket.at).as_secs_f64().max(0.0) / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + refilled).min(BURST);
        bucket.at = at;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    /// False once there are too many different messages for one reason: they are told as one then.
    fn is_told_alone(&mut self, note: &Note, severity: &'static str) -> bool {
        let key = (note.about.clone(), severity, note.reason.clone());
        let similar = self.similar.entry(key).or_insert(Similar { messages: Vec::new(), last: note.at });
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

    /// `<object>.<time in hex>`, never the same twice.
    fn new_name(&mut self, object: &str, at: Timestamp) -> String {
        self.last_name = at.as_nanosecond().max(self.last_name + 1);
        format!("{object}.{:x}", self.last_name)
    }
}

/// Events about things without a namespace lie in `default`.
fn namespace(about: &About) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

fn is_older(at: Timestamp, than: Duration, now: Timestamp) -> bool {
    SignedDuration::try_from(than).is_ok_and(|than| now.duration_since(at) > than)
}

fn object(node: &str, sameness: &Sameness, event: &Shown, message: &str) -> Map<String, Value> {
    let about = &sameness.about;
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
        "reason": sameness.reason,
        "message": message,
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": rfc3339(event.first),
        "lastTimestamp": rfc3339(event.last),
        "count": event.count,
        "type": sameness.severity,
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
