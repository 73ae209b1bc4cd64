//! Under which key an object stands in the store.

use crate::resource::Resource;

/// What all keys of objects begin with.
pub(super) const PREFIX: &str = "/registry/";

/// What a key names.
pub(super) struct Place<'a> {
    pub resource: Resource,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// `/registry/deployments.apps/default/web`; the namespace of what lies in none is empty.
pub(super) fn of(resource: &Resource, namespace: &str, name: &str) -> String {
    format!("{PREFIX}{}/{namespace}/{name}", resource.qualified())
}

/// What the key names; `None` when it is not one of ours.
pub(super) fn parse<'a>(resources: &[Resource], key: &'a str) -> Option<Place<'a>> {
    let mut parts = key.strip_prefix(PREFIX)?.splitn(3, '/');
    let (qualified, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
    let resource = resources.iter().find(|r| r.plural == plural && r.group == group)?;
    Some(Place { resource: *resource, namespace, name })
}
