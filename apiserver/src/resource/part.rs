//! Subresources, and the fields that they write.

use api::strategy::Json;

use super::Text;

/// Merges the fields that an update of a subresource may change into the stored object. The arguments are the
/// stored object and the sent one.
pub type UpdateFields = fn(&Json, Json) -> Json;

/// A subresource of a resource, such as `status` or `scale`.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Name in paths.
    pub name: &'static str,
    /// Group, version and kind of the body, if they differ from the kind of the resource.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// Supported verbs.
    pub verbs: &'static [&'static str],
    /// What the server does with requests for the subresource.
    pub part: Part,
}

/// What the server does with requests for a subresource.
#[derive(Clone, Debug)]
pub enum Part {
    /// The subresource reads and writes the status.
    Status,
    /// The subresource writes some of the fields. The strategy distinguishes such subresources by name.
    Fields(UpdateFields),
    /// The subresource reads and writes the number of replicas, as a `Scale`.
    Scale(Replicas),
    /// The subresource binds a pod to a node.
    Binding,
    /// The subresource evicts a pod: a delete that respects disruption budgets.
    Eviction,
    /// A route in front of the API handles the subresource.
    Elsewhere,
    /// The subresource is a stream, which a route in front of the API handles. It has no OpenAPI schema.
    Stream,
}

/// Paths of the fields that a `Scale` exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Desired replicas.
    pub wanted: Text,
    /// Actual replicas.
    pub actual: Text,
    /// Label selector: a `LabelSelector`, a map of labels, or a string.
    pub selector: Option<Text>,
}

impl Subresource {
    /// Creates the status subresource.
    pub fn status() -> Self {
        Self { name: "status", kind: None, verbs: &["get", "patch", "update"], part: Part::Status }
    }

    /// Creates a subresource for a subset of fields.
    pub fn fields(name: &'static str, update_fields: UpdateFields) -> Self {
        Self { name, kind: None, verbs: &["get", "patch", "update"], part: Part::Fields(update_fields) }
    }

    /// Creates the scale subresource.
    pub fn scale(replicas: Replicas) -> Self {
        let kind = Some(("autoscaling", "v1", "Scale"));
        Self { name: "scale", kind, verbs: &["get", "patch", "update"], part: Part::Scale(replicas) }
    }

    /// Creates the binding subresource.
    pub fn binding() -> Self {
        Self { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"], part: Part::Binding }
    }

    /// Creates the eviction subresource.
    pub fn eviction() -> Self {
        let kind = Some(("policy", "v1", "Eviction"));
        Self { name: "eviction", kind, verbs: &["create"], part: Part::Eviction }
    }

    /// Creates a subresource that a route in front of the API handles.
    pub fn elsewhere(
        name: &'static str,
        kind: (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, kind: Some(kind), verbs, part: Part::Elsewhere }
    }

    /// Creates a stream that a route in front of the API handles. `kind` is the core/v1 type of its options.
    pub fn stream(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, kind: Some(("", "v1", kind)), verbs, part: Part::Stream }
    }
}
