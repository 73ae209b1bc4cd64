//! User and group names in node certificates. Pure.

use apiserver::auth::nodes::name_of;
pub use apiserver::auth::nodes::{NODES as GROUP, PREFIX};

/// The node name in a user name. The prefixes `system:node:` and `kubelet:` are equivalent.
pub fn of_user(user: &str) -> Option<&str> {
    name_of(user).filter(|name| is_name(name))
}

/// True for a valid Node name, so that no certificate is issued for an impossible node.
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
    //! Tests of user names.
    use super::of_user;

    #[test]
    fn both_user_name_formats_identify_the_same_node() {
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
