//! Reads and writes `metadata.managedFields`, the record of field ownership.
//!
//! The record is often larger than the rest of the object, and most writes change only a timestamp in it. Therefore it
//! is stored separately from the object, and unchanged entries are written back without decoding them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::field_set::FieldSet;
use crate::shape::Shape;

/// Maximum number of entries with the operation `Update`, as in the stock API server. Older entries are merged into
/// one.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager name of the entry into which old `Update` entries are merged.
const ANCIENT: &str = "ancient-changes";

/// The operation through which a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Server-side apply: fields that the manager no longer applies are removed.
    Apply,
    /// Create, update or patch.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The key of an entry in `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerIdentity {
    pub(super) operation: Operation,
    pub(super) manager: String,
    /// Empty for `Apply`, because an applier has one entry for all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl fmt::Display for ManagerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// The fields of one manager.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
    pub(super) set: FieldSet,
    /// The encoded set as it was read, until the set changes. After [`ManagedFields::read_lazily`] only this field is
    /// filled.
    text: Option<Box<RawValue>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (&self.api_version, self.time, &self.set) == (&other.api_version, other.time, &other.set)
    }
}

impl Entry {
    pub(super) fn new(api_version: &str, time: Timestamp, set: FieldSet) -> Self {
        Self { api_version: api_version.to_owned(), time: Some(time), set, text: None }
    }

    /// Intersects `set` with the encoded set without decoding all of it. `None` if that is not possible.
    pub(super) fn common(&self, set: &FieldSet, shape: Shape<'_>) -> Option<FieldSet> {
        set.common_with(self.text.as_ref()?.get(), shape)
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.text.is_none()
    }
}

/// An entry of `managedFields` as read from JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry<'a> {
    manager: Option<String>,
    operation: Option<String>,
    api_version: Option<String>,
    time: Option<String>,
    fields_type: Option<String>,
    #[serde(rename = "fieldsV1", borrow)]
    fields: Option<&'a RawValue>,
    subresource: Option<String>,
}

/// An entry of `managedFields` as written to JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireEntry<'a> {
    manager: &'a str,
    operation: &'static str,
    api_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    fields_type: &'static str,
    #[serde(rename = "fieldsV1")]
    fields: Fields<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Fields<'a> {
    AsRead(&'a RawValue),
    FieldSet(&'a FieldSet),
}

/// The owners of all fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ManagedFields(pub(super) BTreeMap<ManagerIdentity, Entry>);

impl ManagedFields {
    /// Removes `managedFields` from an object and returns it.
    pub(super) fn take(object: &mut Map<String, Value>) -> Option<Value> {
        object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
    }

    /// Decodes `managedFields`. An empty record has no entries.
    ///
    /// # Errors
    /// If an entry is invalid. The error describes the first one.
    pub(super) fn read(record: &[u8]) -> Result<Self, String> {
        Self::read_by(record, |row| {
            let (identity, mut entry) = read_lazily(row)?;
            if let Some(text) = &entry.text {
                let set = FieldSet::parse(&mut serde_json::Deserializer::from_str(text.get()));
                entry.set = set.map_err(|error| format!("fieldsV1: {error}"))?;
            }
            entry.text.take_if(|_| entry.set.is_empty());
            Ok((identity, entry))
        })
    }

    /// Does the same as [`Self::read`], but leaves the field sets encoded.
    ///
    /// # Errors
    /// If an entry is invalid. The error describes the first one. Field sets are not checked.
    pub(super) fn read_lazily(record: &[u8]) -> Result<Self, String> {
        Self::read_by(record, read_lazily)
    }

    fn read_by(
        record: &[u8],
        row: impl Fn(&str) -> Result<(ManagerIdentity, Entry), String>,
    ) -> Result<Self, String> {
        if record.is_empty() {
            return Ok(Self::default());
        }
        let texts: Option<Vec<&RawValue>> =
            serde_json::from_slice(record).map_err(|_| "metadata.managedFields is not a list".to_owned())?;
        let entry = |(index, text): (usize, &&RawValue)| {
            row(text.get()).map_err(|what| format!("metadata.managedFields[{index}]: {what}"))
        };
        texts.iter().flatten().enumerate().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// Encodes `managedFields`; empty if no field is owned.
    pub(super) fn record(&self) -> Vec<u8> {
        let mut entries: Vec<_> = self.0.iter().filter(|(_, entry)| !entry.is_empty()).collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let second = |entry: &Entry| entry.time.map_or(0, Timestamp::as_second);
        entries.sort_by(|(a, x), (b, y)| {
            (a.operation, second(x), &a.manager, &x.api_version, &a.subresource).cmp(&(
                b.operation,
                second(y),
                &b.manager,
                &y.api_version,
                &b.subresource,
            ))
        });
        let printed: Vec<_> = entries.into_iter().map(|(identity, entry)| print(identity, entry)).collect();
        serde_json::to_vec(&printed).unwrap_or_default()
    }

    /// All fields that any manager owns.
    pub(super) fn owned(&self) -> FieldSet {
        self.0.values().fold(FieldSet::default(), |owned, entry| owned.union(entry.set.clone()))
    }

    /// Adapts the recorded sets to the current schema.
    pub(super) fn reconcile(&mut self, shape: Shape<'_>) {
        for entry in self.0.values_mut() {
            if entry.set.reconcile(shape) {
                entry.text = None;
            }
        }
    }

    /// Removes fields from all managers except `but`.
    pub(super) fn take_from_others(&mut self, set: &FieldSet, but: Option<&ManagerIdentity>) {
        for (identity, entry) in &mut self.0 {
            if Some(identity) != but && entry.set.subtract(set) {
                entry.text = None;
            }
        }
        self.0.retain(|_, entry| !entry.set.is_empty());
    }

    /// True if [`Self::cap`] may have to merge entries.
    pub(super) fn may_exceed_limit(&self) -> bool {
        self.0.len() > MAX_UPDATE_MANAGERS
    }

    /// Merges the oldest `Update` entries until at most [`MAX_UPDATE_MANAGERS`] remain.
    pub(super) fn cap(&mut self) {
        let mut updates: Vec<ManagerIdentity> =
            self.0.keys().filter(|identity| identity.operation == Operation::Update).cloned().collect();
        let mut excess = updates.len().saturating_sub(MAX_UPDATE_MANAGERS);
        if excess == 0 {
            return;
        }
        let second = |identity: &ManagerIdentity| {
            self.0.get(identity).and_then(|entry| entry.time).map_or(0, Timestamp::as_second)
        };
        updates.sort_by_cached_key(|identity| (second(identity), identity.clone()));
        let mut oldest = HashMap::<String, ManagerIdentity>::new();
        for identity in updates {
            if excess == 0 {
                break;
            }
            let version = identity.api_version.clone();
            let Some(first) = oldest.get(&version).cloned() else {
                oldest.insert(version, identity);
                continue;
            };
            let ancient = ManagerIdentity {
                operation: Operation::Update,
                manager: ANCIENT.to_owned(),
                api_version: version.clone(),
                subresource: String::new(),
            };
            for merged in [first, identity] {
                if let Some(entry) = self.0.remove(&merged) {
                    self.add(ancient.clone(), entry);
                }
            }
            oldest.insert(version, ancient);
            excess -= 1;
        }
    }

    /// Adds fields to those of a manager. The entry keeps the later timestamp.
    pub(super) fn add(&mut self, identity: ManagerIdentity, entry: Entry) {
        match self.0.entry(identity) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            std::collections::btree_map::Entry::Occupied(mut occupied) => {
                let before = occupied.get_mut();
                if !before.set.includes(&entry.set) {
                    before.set = std::mem::take(&mut before.set).union(entry.set);
                    before.text = None;
                }
                before.time = before.time.max(entry.time);
                before.api_version = entry.api_version;
            }
        }
    }
}

/// True if two records differ only in their timestamps.
pub fn is_same_but_for_times(record: &[u8], other: &[u8]) -> bool {
    // Timestamps also determine the order of entries, so the decoded records are compared.
    let timeless = |record: &[u8]| {
        let mut read = ManagedFields::read(record).ok()?;
        read.0.values_mut().for_each(|entry| entry.time = None);
        Some(read)
    };
    record == other || timeless(record).is_some_and(|read| Some(read) == timeless(other))
}

fn read_lazily(text: &str) -> Result<(ManagerIdentity, Entry), String> {
    let RawEntry { manager, operation, api_version, time, fields_type, fields, subresource } =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let operation = match operation.as_deref() {
        Some("Apply") => Operation::Apply,
        Some("Update") => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = api_version.filter(|version| !version.is_empty());
    let api_version = api_version.ok_or("apiVersion must not be empty")?;
    match fields_type.as_deref() {
        Some("FieldsV1") => {}
        None | Some("") => return Err("missing fieldsType".to_owned()),
        Some(other) => return Err(format!("invalid fieldsType \"{other}\"; it is FieldsV1")),
    }
    let time = match time.as_deref() {
        None | Some("") => None,
        Some(time) => Some(
            time.parse()
                .map_err(|_| format!("time `{time}` is not a time; write it like 2006-01-02T15:04:05Z"))?,
        ),
    };
    let identity = ManagerIdentity {
        operation,
        manager: manager.unwrap_or_default(),
        api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
        subresource: subresource.unwrap_or_default(),
    };
    let text = fields.filter(|fields| fields.get() != "{}").map(RawValue::to_owned);
    Ok((identity, Entry { api_version, time, set: FieldSet::default(), text }))
}

fn print<'a>(identity: &'a ManagerIdentity, entry: &'a Entry) -> WireEntry<'a> {
    WireEntry {
        manager: &identity.manager,
        operation: identity.operation.name(),
        api_version: &entry.api_version,
        time: entry.time.map(crate::time::seconds),
        fields_type: "FieldsV1",
        fields: entry.text.as_deref().map_or(Fields::FieldSet(&entry.set), Fields::AsRead),
        subresource: &identity.subresource,
    }
}
