//! Storage keys of objects.

/// Prefix of all object keys.
pub(super) const PREFIX: &str = "/registry/";

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Storage name, such as `pods` or `deployments.apps`.
    pub stored: &'a str,
    /// Namespace; empty if cluster-scoped.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// The prefix of all keys of a resource.
pub(super) fn prefix(stored: &str) -> String {
    format!("{PREFIX}{stored}/")
}

/// The key of an object, such as `/registry/deployments.apps/default/web`. The namespace is empty for
/// cluster-scoped objects.
pub fn of(stored: &str, namespace: &str, name: &str) -> String {
    format!("{PREFIX}{stored}/{namespace}/{name}")
}

/// Parses a key. Returns `None` if it is not an object key.
pub fn parse(key: &str) -> Option<Place<'_>> {
    let mut parts = key.strip_prefix(PREFIX)?.splitn(3, '/');
    Some(Place { stored: parts.next()?, namespace: parts.next()?, name: parts.next()? })
}
