//! One line of the table of all types: a field, how it is encoded, and how it is merged.

use serde_json::Value;

use super::types::Kind;

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The numbers of protobuf that lead to it from the type's message: several where a message is nested in its
    /// parent and its JSON is not, none where protobuf does not have the field.
    pub numbers: Box<[u32]>,
    /// True when an object without it is not valid.
    pub required: bool,
    /// True when nothing and zero (an empty text, `false`) are two things.
    pub pointer: bool,
    /// What it is when it is left out, for text that is a key of its list: server-side apply tells objects apart by it.
    pub default: Option<Value>,
    /// What a strategic merge patch does to it.
    pub patch: Patch,
    /// What server-side apply owns of it.
    pub apply: Apply,
}

/// What a strategic merge patch does to a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch {
    /// Objects and maps are merged, everything else is replaced.
    #[default]
    Usual,
    /// A list of objects: those with an equal value of the key are merged.
    MergeBy(&'static str),
    /// A list of objects as in [`Patch::MergeBy`], and an object that names `$retainKeys` keeps only these.
    MergeRetainKeysBy(&'static str),
    /// A list of values without parts, which is merged as a set.
    MergeValues,
    /// An object that is merged, and that keeps only the `$retainKeys` it names.
    RetainKeys,
}

/// What server-side apply owns of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// Each part by itself: objects, maps and values without parts.
    #[default]
    Granular,
    /// All of it at once.
    Atomic,
    /// Each value of the list.
    Set,
    /// Each object of the list, told apart by these fields.
    MapBy(Box<[String]>),
}

impl Field {
    /// Reads a line such as `ports []core.v1.ContainerPort 6 map=containerPort,protocol merge=containerPort`. The table is part
    /// of the program; tests read all of it.
    pub(super) fn parse(line: &'static str) -> Self {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let kind = Kind::parse(words.next().unwrap_or_default());
        let numbers =
            words.next().unwrap_or_default().split('.').filter_map(|number| number.parse().ok()).collect();
        // A list is applied at once unless the table says otherwise.
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
                Some(("default", value)) => field.default = Some(value.into()),
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
