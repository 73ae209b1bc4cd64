//! A part of an object with a path of its own, and what lies behind the path.

use api::strategy::Json;

use super::Text;

/// What of an object that is sent becomes part of the one that is there.
pub type Pick = fn(&Json, Json) -> Json;

/// A part of an object with a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Name in paths.
    pub name: &'static str,
    /// Group, version and kind of what is sent there, where they are not the resource's own.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
    /// What lies behind the path.
    pub part: Part,
}

/// What lies behind the path of a part.
#[derive(Clone, Debug)]
pub enum Part {
    /// The status of the object.
    Status,
    /// Some fields of the object; the kind's strategy knows them by the part's name.
    Fields(Pick),
    /// How many there are to be: a `Scale`.
    Scale(Replicas),
    /// Which node a pod runs on: a `Binding`.
    Binding,
    /// A deletion that respects disruption budgets: an `Eviction`.
    Eviction,
    /// Something else, answered by a route in front of the API.
    Elsewhere,
    /// Bytes that go on for as long as somebody listens, answered there too; no document says what they look like.
    Stream,
}

/// Where a kind keeps the numbers that a `Scale` shows: paths such as `spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// How many are wanted.
    pub wanted: Text,
    /// How many there are.
    pub actual: Text,
    /// Which pods they are: a label selector, as an object, as a map or as text.
    pub selector: Option<Text>,
}

impl Subresource {
    /// The status.
    pub fn status() -> Self {
        Self { name: "status", kind: None, verbs: &["get", "patch", "update"], part: Part::Status }
    }

    /// Some fields, which the kind's strategy knows by that name.
    pub fn fields(name: &'static str, pick: Pick) -> Self {
        Self { name, kind: None, verbs: &["get", "patch", "update"], part: Part::Fields(pick) }
    }

    /// A `Scale` of these numbers.
    pub fn scale(replicas: Replicas) -> Self {
        let kind = Some(("autoscaling", "v1", "Scale"));
        Self { name: "scale", kind, verbs: &["get", "patch", "update"], part: Part::Scale(replicas) }
    }

    /// The node of a pod.
    pub fn binding() -> Self {
        Self { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"], part: Part::Binding }
    }

    /// A deletion that disruption budgets allow.
    pub fn eviction() -> Self {
        let kind = Some(("policy", "v1", "Eviction"));
        Self { name: "eviction", kind, verbs: &["create"], part: Part::Eviction }
    }

    /// Something that a route in front of the API answers.
    pub fn elsewhere(
        name: &'static str,
        kind: (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, kind: Some(kind), verbs, part: Part::Elsewhere }
    }

    /// Bytes that a route in front of the API passes on; the options are of that kind of `v1`.
    pub fn stream(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, kind: Some(("", "v1", kind)), verbs, part: Part::Stream }
    }
}
