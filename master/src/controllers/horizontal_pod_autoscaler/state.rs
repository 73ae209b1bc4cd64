//! The state of each autoscaler between synchronizations: recommendations, changes and recorded warnings.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::behavior::History;
use super::status::Event;

/// Pause until the same warning is recorded again. A target without metrics would otherwise cause an event every 15
/// seconds. Stock event recorders count repetitions, and drop most of them after 25.
const REPEAT_WARNINGS_AFTER: Duration = Duration::from_secs(300);

/// The autoscalers by their key, `namespace/name`. An entry exists as long as its autoscaler.
#[derive(Debug, Default)]
pub struct AutoscalerStates(Mutex<HashMap<String, AutoscalerState>>);

/// The state of one autoscaler.
#[derive(Debug)]
struct AutoscalerState {
    /// UID of the autoscaler.
    uid: Box<str>,
    /// `None` until the scale of the target was read once.
    history: Option<History>,
    /// The names of the pods that it scales.
    pods: BTreeSet<Box<str>>,
    /// Reason and message of the warnings that were recorded within [`REPEAT_WARNINGS_AFTER`].
    warnings: HashMap<(&'static str, String), Instant>,
}

impl AutoscalerStates {
    /// Starts the state of an autoscaler, if there is none.
    pub fn start(&self, key: &str, uid: &str) {
        let mut states = self.lock();
        if states.get(key).is_none_or(|state| *state.uid != *uid) {
            let state = AutoscalerState {
                uid: uid.into(),
                history: None,
                pods: BTreeSet::new(),
                warnings: HashMap::new(),
            };
            states.insert(key.to_owned(), state);
        }
    }

    /// Forgets an autoscaler that no longer exists.
    pub fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Calls a function with the history of an autoscaler, which starts with the current replicas. Returns `None` if
    /// the autoscaler was deleted meanwhile.
    pub fn with_history<T>(
        &self,
        key: &str,
        (current, now): (i64, Instant),
        call: impl FnOnce(&mut History) -> T,
    ) -> Option<T> {
        let mut states = self.lock();
        let state = states.get_mut(key)?;
        Some(call(state.history.get_or_insert_with(|| History::new(current, now))))
    }

    /// Records the pods of an autoscaler. Returns the keys of all autoscalers in its namespace that scale one of them,
    /// if there is another one.
    pub fn set_pods(&self, key: &str, pods: BTreeSet<Box<str>>) -> Option<Vec<String>> {
        let mut states = self.lock();
        let namespace = namespace(key);
        let shares = |(other, state): &(&String, &AutoscalerState)| {
            *other != key && self::namespace(other) == namespace && !state.pods.is_disjoint(&pods)
        };
        let mut others: Vec<String> = states.iter().filter(shares).map(|(other, _)| other.clone()).collect();
        if let Some(state) = states.get_mut(key) {
            state.pods = pods;
        }
        if others.is_empty() {
            return None;
        }
        others.push(key.to_owned());
        others.sort();
        Some(others)
    }

    /// Returns the events without warnings that were recorded within [`REPEAT_WARNINGS_AFTER`]. For an autoscaler
    /// without an entry, returns all events.
    pub fn without_repeated_warnings(&self, key: &str, events: Vec<Event>, now: Instant) -> Vec<Event> {
        let mut states = self.lock();
        let Some(state) = states.get_mut(key) else { return events };
        state.warnings.retain(|_, at| now.saturating_duration_since(*at) < REPEAT_WARNINGS_AFTER);
        let is_new = |event: &Event| {
            if !event.is_warning {
                return true;
            }
            let warning = (event.reason, event.message.clone());
            let is_known = state.warnings.contains_key(&warning);
            if !is_known {
                state.warnings.insert(warning, now);
            }
            !is_known
        };
        events.into_iter().filter(is_new).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, AutoscalerState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespace(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_warnings_with_one_reason_are_recorded_once_in_five_minutes() {
        let states = AutoscalerStates::default();
        states.start("shop/web", "u");
        let warning = |message: &str| Event {
            is_warning: true,
            reason: "FailedGetPodsMetric",
            message: message.to_owned(),
        };
        let events = || vec![warning("a"), warning("b")];
        let now = Instant::now();
        assert_eq!(states.without_repeated_warnings("shop/web", events(), now).len(), 2);
        assert_eq!(states.without_repeated_warnings("shop/web", events(), now).len(), 0);
        assert_eq!(
            states.without_repeated_warnings("shop/web", events(), now + REPEAT_WARNINGS_AFTER).len(),
            2
        );
    }
}
