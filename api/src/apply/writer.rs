//! The writer of an object: its field manager, and the fields that it can own.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::field_set::{FieldSet, PathElement};
use super::managed::{ManagerIdentity, Operation};
use crate::shape::Shape;

/// A request that writes an object.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the field manager.
    pub manager: &'a str,
    /// The part of the object that the request writes.
    pub part: Part<'a>,
    /// The API version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// The type of the object.
    pub shape: Shape<'a>,
    /// The time of the request.
    pub now: Timestamp,
}

/// Maximum length of the name of a field manager in bytes, as in Kubernetes.
const MAX_MANAGER_BYTES: usize = 128;

/// The name of the field manager: the one that the client states, otherwise the first part of its user agent, such as
/// `kubectl` in `kubectl/v1.36.0 (linux/amd64)`.
pub fn manager_of(field_manager: Option<&str>, user_agent: &str) -> String {
    if let Some(manager) = field_manager.filter(|manager| !manager.is_empty()) {
        return manager.to_owned();
    }
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut name: String = name.chars().filter(|c| !c.is_control()).collect();
    name.truncate(name.floor_char_boundary(MAX_MANAGER_BYTES));
    name
}

/// The part of an object that a request may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The whole object: the resource has no `status` subresource.
    Whole,
    /// All but the status: the resource has a `status` subresource.
    Main,
    /// The `status` subresource: the status, and metadata except labels.
    Status,
    /// Another subresource, whose strategy decides which fields may change.
    Other(&'a str),
}

impl Part<'_> {
    fn subresource(&self) -> &str {
        match self {
            Self::Whole | Self::Main => "",
            Self::Status => "status",
            Self::Other(name) => name,
        }
    }
}

impl Writer<'_> {
    /// The key of this writer's entry in `managedFields`.
    pub(super) fn identity(&self, operation: Operation) -> ManagerIdentity {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        ManagerIdentity {
            operation,
            manager: manager.to_owned(),
            api_version: if operation == Operation::Apply {
                String::new()
            } else {
                self.api_version.to_owned()
            },
            subresource: self.part.subresource().to_owned(),
        }
    }

    /// Removes the fields that this part of the object does not contain.
    pub(super) fn restrict(&self, set: FieldSet) -> FieldSet {
        match self.part {
            Part::Whole | Part::Other(_) => set,
            Part::Main => set.outside(&MAIN_RESET_FIELDS),
            Part::Status => set.outside(&STATUS_RESET_FIELDS),
        }
    }

    /// The fields of `set` that can have an owner.
    pub(super) fn ownable(&self, set: FieldSet) -> FieldSet {
        self.restrict(set).difference(&STRIPPED_FIELDS)
    }

    /// Removes the fields that this part does not contain from an applied object. System fields that are `null` are
    /// removed too, because tools write `creationTimestamp: null` into manifests.
    pub(super) fn restrict_applied(&self, applied: &Value) -> Value {
        let mut applied = applied.clone();
        let Some(fields) = applied.as_object_mut() else { return applied };
        match self.part {
            Part::Whole | Part::Other(_) => {}
            Part::Main => drop(fields.shift_remove("status")),
            Part::Status => drop(fields.shift_remove("spec")),
        }
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            if self.part == Part::Status {
                metadata.shift_remove("labels");
            }
            metadata.retain(|name, value| !(value.is_null() && STRIPPED_METADATA.contains(&name.as_str())));
        }
        applied
    }
}

const STRIPPED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

static STRIPPED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut paths = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    paths.extend(STRIPPED_METADATA.iter().map(|name| vec!["metadata", name]));
    set_of(&paths)
});
static MAIN_RESET_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| set_of(&[vec!["status"]]));
static STATUS_RESET_FIELDS: LazyLock<FieldSet> =
    LazyLock::new(|| set_of(&[vec!["spec"], vec!["metadata", "labels"]]));

fn set_of(paths: &[Vec<&str>]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        let path: Vec<_> = path.iter().map(|name| PathElement::Field((*name).to_owned())).collect();
        set.insert(&path);
    }
    set
}
