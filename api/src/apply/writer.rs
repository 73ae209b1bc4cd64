//! Who writes which part of an object, and what of it nobody can own.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::managed::{Identity, Operation};
use super::set::{Element, Set};
use crate::shape::Shape;

/// A request that writes an object.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager: what the client calls itself.
    pub manager: &'a str,
    /// The part of the object that is written.
    pub part: Part<'a>,
    /// The version the request speaks, such as `apps/v1`.
    pub api_version: &'a str,
    /// The type of the object.
    pub shape: Shape<'a>,
    /// When this happens.
    pub now: Timestamp,
}

/// How long the name of a manager may be, in bytes; the API's limit.
const MAX_MANAGER_BYTES: usize = 128;

/// What a client calls itself as a field manager: what it says it is or, when it says nothing, the first word of its
/// user agent, `kubectl/v1.36.0 (linux/amd64)`.
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
    /// All of it: the resource has no subresource `status`.
    Whole,
    /// All but the status, which the resource has a subresource for.
    Main,
    /// The subresource `status`: the status, and metadata but for labels.
    Status,
    /// Another subresource, which knows itself what it lets through.
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
    /// The entry of this writer.
    pub(super) fn identity(&self, operation: Operation) -> Identity {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        Identity {
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

    /// The fields of `set` that this part of the object has.
    pub(super) fn restrict(&self, set: Set) -> Set {
        match self.part {
            Part::Whole | Part::Other(_) => set,
            Part::Main => set.outside(&MAIN_IGNORES),
            Part::Status => set.outside(&STATUS_IGNORES),
        }
    }

    /// The fields of `set` that somebody can own.
    pub(super) fn ownable(&self, set: Set) -> Set {
        self.restrict(set).difference(&NOBODYS)
    }

    /// What of an applied object belongs to this part. A system field that is `null` is left out: tools that print
    /// manifests write `creationTimestamp: null`.
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
            metadata.retain(|name, value| !(value.is_null() && NOBODYS_METADATA.contains(&name.as_str())));
        }
        applied
    }
}

const NOBODYS_METADATA: [&str; 9] = [
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

static NOBODYS: LazyLock<Set> = LazyLock::new(|| {
    let mut paths = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    paths.extend(NOBODYS_METADATA.iter().map(|name| vec!["metadata", name]));
    set_of(&paths)
});
static MAIN_IGNORES: LazyLock<Set> = LazyLock::new(|| set_of(&[vec!["status"]]));
static STATUS_IGNORES: LazyLock<Set> = LazyLock::new(|| set_of(&[vec!["spec"], vec!["metadata", "labels"]]));

fn set_of(paths: &[Vec<&str>]) -> Set {
    let mut set = Set::default();
    for path in paths {
        let path: Vec<_> = path.iter().map(|name| Element::Field((*name).to_owned())).collect();
        set.insert(&path);
    }
    set
}
