//! Nobody becomes a node.

use super::{Asked, Policy, Verdict};

/// The policy.
pub(super) struct AlwaysReject;

impl Policy for AlwaysReject {
    fn judge(&self, _: &Asked) -> Verdict {
        Verdict::Deny("this cluster takes no new nodes (--csr-approval-policy always-reject)".to_owned())
    }

    fn lets_in(&self) -> bool {
        false
    }
}
