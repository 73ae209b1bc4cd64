//! Reports a resource that controllers cannot list for a while, both in the log and by an Event that `master check`
//! shows.

use std::time::Duration;

use client::{Client, Error, Kind};
use tokio::time::Instant;

use super::event_recorder::{NewEvent, record_event};

/// How long a resource may be unreadable without a report. Restarts of the server take less time.
const GRACE: Duration = Duration::from_secs(60);
/// Interval between two reports of one outage.
const AGAIN: Duration = Duration::from_secs(10 * 60);
/// The namespace that the Events are about: that of the control plane.
const NAMESPACE: &str = "kube-system";
static KIND: Kind = Kind::NAMESPACE;

/// The failures of one resource since its last success.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    reported: Option<Instant>,
}

impl Outage {
    /// Reports a failed list or watch, if the resource has been unreadable for long.
    pub(super) async fn failed(&mut self, client: &Client, kind: &Kind, error: &Error) {
        if !self.is_due(Instant::now()) {
            return;
        }
        let message = format!(
            "controllers cannot list {} for more than {} s and stand still: {}",
            kind.qualified(),
            GRACE.as_secs(),
            error.full_message()
        );
        tracing::warn!(resource = kind.qualified(), error = error.full_message(), "{message}");
        record_event(client, about("FailedList", true, &message)).await;
    }

    /// Ends the outage. Reports the end only if the outage was reported.
    pub(super) async fn ended(&mut self, client: &Client, kind: &Kind) {
        let Self { reported, .. } = std::mem::take(self);
        if reported.is_some() {
            let message = format!("controllers can list {} again", kind.qualified());
            tracing::info!("{message}");
            record_event(client, about("ListRecovered", false, &message)).await;
        }
    }

    /// Records a failure. Returns true if it is to be reported now.
    fn is_due(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_due = now.duration_since(since) >= GRACE
            && self.reported.is_none_or(|reported| now.duration_since(reported) >= AGAIN);
        if is_due {
            self.reported = Some(now);
        }
        is_due
    }
}

fn about<'a>(reason: &'a str, is_warning: bool, message: &'a str) -> NewEvent<'a> {
    NewEvent {
        kind: &KIND,
        namespace: "",
        name: NAMESPACE,
        uid: "",
        is_warning,
        reason,
        message,
        component: "kube-controller-manager",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_reported_after_a_minute_and_again_every_ten() {
        let mut outage = Outage::default();
        let begun = Instant::now();
        let due: Vec<u64> =
            (0..=1300).filter(|second| outage.is_due(begun + Duration::from_secs(*second))).collect();
        assert_eq!(due, [60, 660, 1260]);
    }
}
