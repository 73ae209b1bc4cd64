//! Event reporter: reports a condition once in the log and as an event of the Node. If the condition persists, it
//! is reported again later.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::report::{About, Outbox, Severity};

/// Interval at which a condition that persists is reported again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Writes log lines and records events of the Node.
#[derive(Debug)]
pub struct EventReporter {
    node: String,
    outbox: Arc<Outbox>,
    last: Option<(String, Timestamp)>,
}

impl EventReporter {
    /// Creates a reporter for the node of this name.
    pub fn new(node: &str, outbox: Arc<Outbox>) -> Self {
        Self { node: node.to_owned(), outbox, last: None }
    }

    /// Records a Warning event, unless the last one was the same. `status` logs Warning events.
    pub fn warn(&mut self, reason: &'static str, text: String, now: Timestamp) {
        if self.is_new(&text, now) {
            self.outbox.note(About::node(&self.node), Severity::Warning, reason, text);
        }
    }

    /// Reports that another machine uses this node's name in the cluster. `None` reports that none does.
    pub fn name_conflict(&self, conflict: Option<String>) {
        self.outbox.name_conflict(conflict);
    }

    /// Records a Normal event, unless the last one was the same.
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

    /// Whether the text differs from the last one. Texts that differ only in digits, such as times, count as the
    /// same.
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
