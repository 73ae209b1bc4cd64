//! What happens to the network of pods is told twice: in the log, and as an event of the node.

use std::sync::Arc;

use crate::report::{About, Outbox, Severity};

/// Tells it.
pub fn tell(outbox: &Arc<Outbox>, node: &str, severity: Severity, reason: &'static str, text: String) {
    match severity {
        Severity::Normal => tracing::info!(reason, "{text}"),
        Severity::Warning => tracing::warn!(reason, "{text}"),
    }
    outbox.note(About::node(node), severity, reason, text);
}
