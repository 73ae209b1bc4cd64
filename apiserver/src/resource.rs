//! A resource is a row: what it is called, what may be done with it, how it is printed.

use std::fmt;

use serde_json::{Map, Value};

use crate::table::Columns;

/// One kind of object that is served.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// API group, empty for the core one.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Name in paths.
    pub plural: &'static str,
    /// Name of one.
    pub singular: &'static str,
    /// Objects lie in namespaces.
    pub namespaced: bool,
    /// What people type.
    pub short_names: &'static [&'static str],
    /// Groups of resources it belongs to (`all`).
    pub categories: &'static [&'static str],
    /// What may be done with it.
    pub verbs: &'static [&'static str],
    /// Parts of its objects with a path of their own.
    pub subresources: &'static [Subresource],
    /// What field selectors may ask for, beyond name and namespace.
    pub fields: &'static [&'static str],
    /// How a table of it looks.
    pub columns: Columns,
    /// Who alone may change an object: ends the sentence "... is forbidden: ".
    pub owner: fn(&Map<String, Value>) -> String,
}

/// A part of an object with a path of its own; served by a route of its own, named here for discovery.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// Name in paths.
    pub name: &'static str,
    /// Kind that discovery names.
    pub kind: &'static str,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods` or `deployments.apps`: the name in the store and in messages.
    pub fn qualified(&self) -> QualifiedName {
        QualifiedName { plural: self.plural, group: self.group }
    }
}

/// `pods` or `deployments.apps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    plural: &'static str,
    group: &'static str,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}
