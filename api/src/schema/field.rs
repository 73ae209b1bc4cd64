//! One line of the type table: a field, its encoding, and its merge strategy.

use serde_json::Value;

use super::types::Kind;

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The protobuf field numbers that lead to the field. More than one if JSON inlines a nested message; none if the
    /// field is not in protobuf.
    pub numbers: Box<[u32]>,
    /// True if the field is required.
    pub required: bool,
    /// True if the Go field is a pointer, so that zero differs from absent.
    pub pointer: bool,
    /// The default in OpenAPI. Server-side apply needs it to identify elements of a list without one of their keys.
    pub default: Option<Value>,
    /// The strategic merge patch strategy.
    pub patch: Patch,
    /// The server-side apply strategy.
    pub apply: Apply,
}

/// How a strategic merge patch merges a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch {
    /// Objects and maps are merged, other values are replaced.
    #[default]
    Usual,
    /// A list of objects, merged by this key.
    MergeBy(&'static str),
    /// Merges like [`Patch::MergeBy`]. Objects with `$retainKeys` keep only the keys listed there.
    MergeRetainKeysBy(&'static str),
    /// A list of scalars, merged as a set.
    MergeValues,
    /// An object that is merged; with `$retainKeys`, it keeps only those keys.
    RetainKeys,
}

/// How server-side apply tracks the owners of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// Each part of the value has its own owner.
    #[default]
    Granular,
    /// The whole value has one owner.
    Atomic,
    /// Each value of a list has its own owner.
    Set,
    /// Each object of a list has its own owner. These keys identify the object.
    MapBy(Box<[String]>),
}

impl Field {
    /// Parses a line such as `ports []core.v1.ContainerPort 6 map=containerPort,protocol merge=containerPort`. The
    /// table is part of the program; tests parse all of it.
    pub(super) fn parse(line: &'static str) -> Self {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let kind = Kind::parse(words.next().unwrap_or_default());
        let numbers =
            words.next().unwrap_or_default().split('.').filter_map(|number| number.parse().ok()).collect();
        // Lists are atomic unless the table says otherwise.
        let apply = if matches!(kind, Kind::List(_)) { Apply::Atomic } else { Apply::Granular };
        let mut field = Self {
            name,
            kind,
            numbers,
            required: false,
            pointer: false,
            default: None,
            patch: Patch::Usual,
            apply,
        };
        for word in words {
            match word.split_once('=') {
                None if word == "required" => field.required = true,
                None if word == "pointer" => field.pointer = true,
                None if word == "atomic" => field.apply = Apply::Atomic,
                None if word == "set" => field.apply = Apply::Set,
                None if word == "merge" => field.patch = Patch::MergeValues,
                None if word == "retainKeys" => field.patch = Patch::RetainKeys,
                Some(("default", value)) => field.default = Some(value.trim_matches('"').into()),
                Some(("map", keys)) => {
                    field.apply = Apply::MapBy(keys.split(',').map(str::to_owned).collect())
                }
                Some(("merge", key)) => field.patch = Patch::MergeBy(key),
                Some(("mergeRetainKeys", key)) => field.patch = Patch::MergeRetainKeysBy(key),
                _ => {}
            }
        }
        field
    }
}
