//! Whoever reaches the port becomes whichever node they like: for trying things out.

use super::{Asked, Policy, Verdict};

/// The policy.
pub(super) struct InsecureAlwaysApprove;

impl Policy for InsecureAlwaysApprove {
    fn judge(&self, _: &Asked) -> Verdict {
        Verdict::Approve("nobody looked (--csr-approval-policy insecure-always-approve)".to_owned())
    }

    fn minds(&self) -> bool {
        false
    }
}
