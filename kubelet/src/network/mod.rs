//! The pod network: which component gives a sandbox its addresses.
//!
//! There are two implementations. Either the engine uses its own bridge, or the kubelet ([`native`]) connects
//! sandboxes that the engine creates without a network. The native one is faster and can reach other nodes.
//! [`Networked`] wraps the engine, so that in both cases the rest of the kubelet sees sandboxes with addresses.

mod choice;
mod files;
mod members;
pub mod native;
mod networked;
pub mod nft;

use std::sync::Arc;

pub use choice::obstacle;
pub use members::{Member, Members, meet};
pub use native::Native;
pub use networked::Networked;

use crate::report::{About, Outbox, Severity};

/// Records an event of the Node about the pod network, and logs Normal events. `status` logs Warning events.
pub fn record_event(
    outbox: &Arc<Outbox>,
    node: &str,
    severity: Severity,
    reason: &'static str,
    text: String,
) {
    if severity == Severity::Normal {
        tracing::info!(reason, "{text}");
    }
    outbox.note(About::node(node), severity, reason, text);
}
