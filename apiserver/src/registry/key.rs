//! Storage keys of objects.

/// Prefix of all object keys.
pub(super) const PREFIX: &str = "/registry/";

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// `pods` or `deployments.apps`.
    pub stored: &'a str,
    /// Empty if cluster-scoped.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Key prefix of a resource.
pub(super) fn prefix(stored: &str) -> String {
    format!("{PREFIX}{stored}/")
}

/// `/registry/deployments.apps/default/web`; the namespace is empty for cluster-scoped objects.
pub(super) fn of(stored: &str, namespace: &str, name: &str) -> String {
    format!("{PREFIX}{stored}/{namespace}/{name}")
}

/// Parses a key; `None` if it is not an object key.
pub(super) fn parse(key: &str) -> Option<Place<'_>> {
    let mut parts = key.strip_prefix(PREFIX)?.splitn(3, '/');
    Some(Place { stored: parts.next()?, namespace: parts.next()?, name: parts.next()? })
}
