//! Subresources and what they write.

use api::strategy::Json;

use super::Text;

/// Merges the fields that an update of a subresource may change into the stored object: `(stored, sent)`.
pub type UpdateFields = fn(&Json, Json) -> Json;

/// A subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Name in paths.
    pub name: &'static str,
    /// Group, version and kind of the body, if not the kind of the resource.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// Supported verbs.
    pub verbs: &'static [&'static str],
    /// Implementation.
    pub part: Part,
}

/// Implementation of a subresource.
#[derive(Clone, Debug)]
pub enum Part {
    /// The status.
    Status,
    /// A subset of fields; the strategy identifies it by the subresource name.
    Fields(UpdateFields),
    /// Scale.
    Scale(Replicas),
    /// Binding of a pod to a node.
    Binding,
    /// Eviction: a delete that respects disruption budgets.
    Eviction,
    /// Handled by a route in front of the API.
    Elsewhere,
    /// A stream, handled by a route in front of the API; it has no OpenAPI schema.
    Stream,
}

/// Paths of the fields that a `Scale` exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Desired replicas.
    pub wanted: Text,
    /// Actual replicas.
    pub actual: Text,
    /// Label selector, as an object, a map or a string.
    pub selector: Option<Text>,
}

impl Subresource {
    /// The status subresource.
    pub fn status() -> Self {
        Self { name: "status", kind: None, verbs: &["get", "patch", "update"], part: Part::Status }
    }

    /// A subresource for a subset of fields.
    pub fn fields(name: &'static str, update_fields: UpdateFields) -> Self {
        Self { name, kind: None, verbs: &["get", "patch", "update"], part: Part::Fields(update_fields) }
    }

    /// The scale subresource.
    pub fn scale(replicas: Replicas) -> Self {
        let kind = Some(("autoscaling", "v1", "Scale"));
        Self { name: "scale", kind, verbs: &["get", "patch", "update"], part: Part::Scale(replicas) }
    }

    /// The binding subresource.
    pub fn binding() -> Self {
        Self { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"], part: Part::Binding }
    }

    /// The eviction subresource.
    pub fn eviction() -> Self {
        let kind = Some(("policy", "v1", "Eviction"));
        Self { name: "eviction", kind, verbs: &["create"], part: Part::Eviction }
    }

    /// A subresource handled by a route in front of the API.
    pub fn elsewhere(
        name: &'static str,
        kind: (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, kind: Some(kind), verbs, part: Part::Elsewhere }
    }

    /// A stream handled by a route in front of the API; `kind` is the core/v1 options type.
    pub fn stream(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, kind: Some(("", "v1", kind)), verbs, part: Part::Stream }
    }
}
