//! Role bindings.

use serde::Deserialize;

use super::meta::ObjectMeta;
use super::values::List;

/// A RoleBinding or ClusterRoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleBinding {
    pub metadata: ObjectMeta,
    /// The role that is granted.
    pub role_ref: RoleRef,
    /// The users, groups and service accounts that get the role.
    pub subjects: List<Subject>,
}

/// A reference to a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    /// Kind of the role: `Role` or `ClusterRole`.
    pub kind: Box<str>,
    pub name: Box<str>,
}

/// A user, group or service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// Kind of the subject: `User`, `Group` or `ServiceAccount`.
    pub kind: Box<str>,
    pub name: Box<str>,
    /// Namespace of a service account.
    pub namespace: Box<str>,
}
