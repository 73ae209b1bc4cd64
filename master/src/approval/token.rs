//! Whoever holds a bootstrap token that has not expired becomes a node: of any name that is free, or of those its token is bound to.
//!
//! A token is bound by groups in `auth-extra-groups` of its Secret: `system:bootstrappers:node:<name>`.

use super::{Asked, Policy, Verdict};

/// The group of who came with such a token. That it has not expired was seen when it was shown.
const GROUP: &str = "system:bootstrappers";
/// What the users of such tokens are called.
const USER: &str = "system:bootstrap:";
/// What a group that binds a token to a node begins with.
const NODE: &str = "system:bootstrappers:node:";

/// The policy.
pub(super) struct Token;

impl Policy for Token {
    fn judge(&self, asked: &Asked) -> Verdict {
        if !asked.username.starts_with(USER) || !asked.is_in(GROUP) {
            return Verdict::Deny(format!(
                "{} shows no bootstrap token (--csr-approval-policy token): make one, docs/joining.md says how",
                asked.username
            ));
        }
        let mut bound = asked.groups.iter().filter_map(|group| group.strip_prefix(NODE)).peekable();
        if bound.peek().is_none() || bound.any(|name| name == asked.node) {
            Verdict::Approve(format!("{} may bring nodes", asked.username))
        } else {
            Verdict::Deny(format!("the token of {} is for other nodes than {}", asked.username, asked.node))
        }
    }
}
