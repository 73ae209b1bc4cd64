//! What a person is told of a certificate: each thing once, and again while it lasts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::report::{About, Outbox, Severity};

/// What lasts is told again after so long.
const AGAIN: Duration = Duration::from_secs(10 * 60);

/// Tells it in the log and as an event of the node.
#[derive(Debug)]
pub struct Voice {
    node: String,
    outbox: Arc<Outbox>,
    last: Option<(String, Timestamp)>,
}

impl Voice {
    /// That of a node.
    pub fn new(node: &str, outbox: Arc<Outbox>) -> Self {
        Self { node: node.to_owned(), outbox, last: None }
    }

    /// Something that a person may have to look at.
    pub fn warn(&mut self, reason: &'static str, text: String, now: Timestamp) {
        if self.is_news(&text, now) {
            tracing::warn!(reason, "{text}");
            self.outbox.note(About::node(&self.node), Severity::Warning, reason, text);
        }
    }

    /// Something that is as it should be.
    pub fn say(&mut self, reason: &'static str, text: String, now: Timestamp) {
        if self.is_news(&text, now) {
            self.tell(reason, text);
        }
    }

    /// Something that has happened, each time that it does.
    pub fn tell(&self, reason: &'static str, text: String) {
        tracing::info!(reason, "{text}");
        self.outbox.note(About::node(&self.node), Severity::Normal, reason, text);
    }

    /// What differs in numbers alone, as times do, is no news.
    fn is_news(&mut self, text: &str, now: Timestamp) -> bool {
        let words: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let again = |told: Timestamp| now.duration_since(told).unsigned_abs() >= AGAIN;
        let is_news = self.last.as_ref().is_none_or(|(last, told)| *last != words || again(*told));
        if is_news {
            self.last = Some((words, now));
        }
        is_news
    }
}
