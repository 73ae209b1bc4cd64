//! Events.

use jiff::Timestamp;
use serde::Deserialize;

use super::{ObjectMeta, time};

/// An Event of `v1` or `events.k8s.io/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    pub metadata: ObjectMeta,
    /// `Normal` or `Warning`.
    pub r#type: Box<str>,
    pub reason: Box<str>,
    pub message: Box<str>,
    /// Number of occurrences. `None` if [`Self::series`] counts them.
    pub count: Option<i64>,
    /// Repetitions. `None` for an event that occurred once, and for an event of the legacy API.
    pub series: Option<EventSeries>,
    /// Time of the last occurrence, as the legacy API records it.
    #[serde(deserialize_with = "time")]
    pub last_timestamp: Option<Timestamp>,
    /// Time of the first occurrence, as `events.k8s.io` records it.
    #[serde(deserialize_with = "time")]
    pub event_time: Option<Timestamp>,
    /// The object that the event is about.
    pub involved_object: InvolvedObject,
}

/// Repetitions of an event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventSeries {
    /// Number of occurrences.
    pub count: Option<i64>,
    /// Time of the last occurrence.
    #[serde(deserialize_with = "time")]
    pub last_observed_time: Option<Timestamp>,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InvolvedObject {
    pub kind: Box<str>,
    /// Namespace, empty if cluster-scoped.
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Event {
    /// The latest time that the event records about itself. `None` if it records none.
    pub fn recorded_time(&self) -> Option<Timestamp> {
        let observed = self.series.as_ref().and_then(|series| series.last_observed_time);
        observed.max(self.last_timestamp).max(self.event_time)
    }

    /// The time of the last occurrence: the recorded time, otherwise the time of creation.
    pub fn last_occurrence(&self) -> Option<Timestamp> {
        self.recorded_time().or(self.metadata.creation_timestamp)
    }

    /// Number of occurrences, including series.
    pub fn occurrences(&self) -> usize {
        let number = |count: Option<i64>| count.and_then(|count| usize::try_from(count).ok());
        let series = self.series.as_ref().and_then(|series| number(series.count));
        series.or_else(|| number(self.count)).unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the times and counts of events.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn last_occurrence_is_the_latest_recorded_time_or_the_creation() {
        let at = |day: u32| format!("2026-01-0{day}T00:00:00Z");
        let series = |day| json!({"count": 4, "lastObservedTime": at(day)});
        for (fields, day, count) in [
            (json!({}), 1, 1),
            (json!({"lastTimestamp": at(3), "eventTime": at(2), "count": 7}), 3, 7),
            (json!({"lastTimestamp": null, "eventTime": at(2), "series": null}), 2, 1),
            (json!({"lastTimestamp": at(3), "series": series(5), "count": 7}), 5, 4),
        ] {
            let mut event = json!({"metadata": {"creationTimestamp": at(1)}});
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let event: Event = serde_json::from_value::<Value>(event).and_then(Event::deserialize).unwrap();
            let expected: Timestamp = at(day).parse().unwrap();
            assert_eq!((event.last_occurrence(), event.occurrences()), (Some(expected), count), "{fields}");
            assert_eq!(event.recorded_time().is_some(), day > 1, "{fields}");
        }
    }
}
