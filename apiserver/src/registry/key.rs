//! Under which key an object stands in the store.

/// What all keys of objects begin with.
pub(super) const PREFIX: &str = "/registry/";

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// `pods` or `deployments.apps`.
    pub stored: &'a str,
    /// Empty for what lies in none.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// What the keys of a resource begin with.
pub(super) fn prefix(stored: &str) -> String {
    format!("{PREFIX}{stored}/")
}

/// `/registry/deployments.apps/default/web`; the namespace of what lies in none is empty.
pub(super) fn of(stored: &str, namespace: &str, name: &str) -> String {
    format!("{PREFIX}{stored}/{namespace}/{name}")
}

/// What the key names; `None` when it is not one of ours.
pub(super) fn parse(key: &str) -> Option<Place<'_>> {
    let mut parts = key.strip_prefix(PREFIX)?.splitn(3, '/');
    Some(Place { stored: parts.next()?, namespace: parts.next()?, name: parts.next()? })
}
