//! Event reporter: reports a condition once in the log and as an event of the Node, and again while it lasts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::report::{About, Outbox, Severity};

/// A lasting condition is reported again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Records log lines and events of the Node.
#[derive(Debug)]
pub struct EventReporter {
    node: String,
    outbox: Arc<Outbox>,
    last: Option<(String, Timestamp)>,
}

impl EventReporter {
    /// A reporter for the node of that name.
    pub fn new(node: &str, outbox: Arc<Outbox>) -> Self {
        Self { node: node.to_owned(), outbox, last: None }
    }

    /// Records a Warning event, unless the same one was the last. Warnings are logged where events are recorded.
    pub fn warn(&mut self, reason: &'static str, text: String, now: Timestamp) {
        if self.is_new(&text, now) {
            self.outbox.note(About::node(&self.node), Severity::Warning, reason, text);
        }
    }

    /// Reports that another machine holds this node's name in the cluster, or that none does any more.
    pub fn name_conflict(&self, conflict: Option<String>) {
        self.outbox.name_conflict(conflict);
    }

    /// Records a Normal event, unless the same one was the last.
    pub fn info_once(&mut self, reason: &'static str, text: String, now: Timestamp) {
        if self.is_new(&text, now) {
            self.info(reason, text);
        }
    }

    /// Records a Normal event each time.
    pub fn info(&self, reason: &'static str, text: String) {
        tracing::info!(reason, "{text}");
        self.outbox.note(About::node(&self.node), Severity::Normal, reason, text);
    }

    /// Texts that differ only in digits, such as times, count as the same.
    fn is_new(&mut self, text: &str, now: Timestamp) -> bool {
        let words: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let again =
            |reported_at: Timestamp| now.duration_since(reported_at).unsigned_abs() >= REPEAT_INTERVAL;
        let is_new =
            self.last.as_ref().is_none_or(|(last, reported_at)| *last != words || again(*reported_at));
        if is_new {
            self.last = Some((words, now));
        }
        is_new
    }
}
