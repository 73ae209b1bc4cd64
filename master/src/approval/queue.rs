//! People decide who becomes a node.

use super::{Asked, Policy, Verdict};

/// The policy.
pub(super) struct Queue;

impl Policy for Queue {
    fn judge(&self, asked: &Asked) -> Verdict {
        Verdict::Wait(format!("{} asks to be the node {}", asked.username, asked.node))
    }
}
