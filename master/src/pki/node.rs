//! Whose certificate is a node's: its user and its group. Pure.

use apiserver::auth::nodes::name_of;
pub use apiserver::auth::nodes::{NODES as GROUP, PREFIX};

/// The node that a user is; both spellings are the same one.
pub fn of_user(user: &str) -> Option<&str> {
    name_of(user).filter(|name| is_name(name))
}

/// Whether a node may be called that: what an object of kind Node may, so that no certificate names one that cannot be.
fn is_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.bytes().all(|byte| is_inside(byte) || byte == b'-')
            && label.bytes().next().is_some_and(is_inside)
            && label.bytes().last().is_some_and(is_inside)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    //! Users that are nodes, and that are not.
    use super::of_user;

    #[test]
    fn both_spellings_are_one_node() {
        for (user, expected) in [
            ("kubelet:n1", Some("n1")),
            ("system:node:n1", Some("n1")),
            ("system:node:a.b-c.example", Some("a.b-c.example")),
            ("system:node:", None),
            ("kubelet:kubelet:n1", None),
            ("system:node:N1", None),
            ("system:node:a b", None),
            ("system:node:-a", None),
            ("system:nodes:a", None),
            ("n1", None),
        ] {
            assert_eq!(of_user(user), expected, "{user}");
        }
    }
}
