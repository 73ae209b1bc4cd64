//! Metadata, owner references and conditions.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::values::{List, StringMap, time};

/// Object metadata.
///
/// `Annotations` is [`StringMap`], or a struct with some annotations. By default annotations are skipped, because
/// clients store large texts in them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "Annotations: Default + Deserialize<'de>"))]
pub struct ObjectMeta<Annotations = IgnoredAny> {
    pub name: Box<str>,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Box<str>,
    pub uid: Box<str>,
    /// Opaque version for conflict detection and watches.
    pub resource_version: Box<str>,
    /// Generation of the specification. Each change of the specification increments it.
    pub generation: i64,
    /// Time of creation.
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted. The time includes the grace period of a pod.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Grace period of a pod that is being deleted.
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: StringMap,
    pub annotations: Annotations,
    /// Names of finalizers.
    pub finalizers: List<Box<str>>,
    pub owner_references: List<OwnerReference>,
}

impl<Annotations> ObjectMeta<Annotations> {
    /// Whether the object is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns a label, or an empty text if it is not set.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).unwrap_or_default()
    }

    /// Returns the owner that manages this object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// The name of the newest object, and among equally old ones the first by name. A default class is chosen like this if
/// several are marked.
pub fn newest<'a, Annotations: 'a>(
    objects: impl Iterator<Item = &'a ObjectMeta<Annotations>>,
) -> Option<&'a str> {
    let newest = objects.max_by_key(|object| (object.creation_timestamp, Reverse(&object.name)))?;
    Some(&newest.name)
}

/// An object of which only metadata is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PartialObject {
    pub metadata: ObjectMeta,
}

/// An object of which only metadata with all annotations is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AnnotatedObject {
    pub metadata: ObjectMeta<StringMap>,
}

/// An object of which only metadata and conditions are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Conditioned {
    pub metadata: ObjectMeta,
    pub status: ConditionedStatus,
}

/// `status` of an object with conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConditionedStatus {
    pub conditions: List<Condition>,
}

/// An object of which only the specification is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, bound(deserialize = "Specification: Default + Deserialize<'de>"))]
pub struct Spec<Specification> {
    pub spec: Specification,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: Box<str>,
    /// Kind of the owner.
    pub kind: Box<str>,
    /// Name of the owner.
    pub name: Box<str>,
    /// UID of the owner.
    pub uid: Box<str>,
    /// Whether the owner manages this object.
    pub controller: bool,
    /// Whether the foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Returns the API group of the owner, which is empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A condition in the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    pub r#type: Box<str>,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Reason of the status, in one word.
    pub reason: Box<str>,
    /// Message for users.
    pub message: Box<str>,
    /// Time of the last change of the status.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Timestamp>,
    /// Time of the last report; only in Nodes.
    #[serde(deserialize_with = "time")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// Time of the last change; only in CertificateSigningRequests.
    #[serde(deserialize_with = "time")]
    pub last_update_time: Option<Timestamp>,
}

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }
}

impl List<Condition> {
    pub fn of_type(&self, kind: &str) -> Option<&Condition> {
        self.iter().find(|condition| &*condition.r#type == kind)
    }
}
