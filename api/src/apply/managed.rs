//! The record of who owns what of an object: `metadata.managedFields`, as JSON.
//!
//! It is most of many an object, and hardly any write changes more of it than a time. So it is kept apart from the object
//! while that is worked on, read straight from its text, and what did not change is written as it stood.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::set::Set;
use crate::shape::Shape;

/// How many managers that do not apply are kept apart; the stock server's number. The oldest are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager that older changes are merged into.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply: it says what it wants, and no longer wants what it does not say any more.
    Apply,
    /// By writing.
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

/// What tells one entry from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) operation: Operation,
    pub(super) manager: String,
    /// Of an applier: empty, it has one entry for all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl fmt::Display for Identity {
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

/// What one manager owns.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
    pub(super) set: Set,
    /// The set as it stood where it was read, until it changes; in a record that is only recalled there is nothing else.
    text: Option<Box<RawValue>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (&self.api_version, self.time, &self.set) == (&other.api_version, other.time, &other.set)
    }
}

impl Entry {
    pub(super) fn new(api_version: &str, time: Timestamp, set: Set) -> Self {
        Self { api_version: api_version.to_owned(), time: Some(time), set, text: None }
    }

    /// What of a set is owned here, told from the text alone; `None` where that takes reading it whole.
    pub(super) fn common(&self, set: &Set, shape: Shape<'_>) -> Option<Set> {
        set.common_with(self.text.as_ref()?.get(), shape)
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.text.is_none()
    }
}

/// An entry as it stands in the record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    manager: Option<String>,
    operation: Option<String>,
    api_version: Option<String>,
    time: Option<String>,
    fields_type: Option<String>,
    #[serde(rename = "fieldsV1", borrow)]
    fields: Option<&'a RawValue>,
    subresource: Option<String>,
}

/// An entry as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
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
    Set(&'a Set),
}

/// Who owns what of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managed(pub(super) BTreeMap<Identity, Entry>);

impl Managed {
    /// Takes the record out of an object that bears it, as it stands there.
    pub(super) fn take(object: &mut Map<String, Value>) -> Option<Value> {
        object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
    }

    /// Reads a record; nobody owns anything where there is none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(record: &[u8]) -> Result<Self, String> {
        Self::read_by(record, |row| {
            let (identity, mut entry) = recall(row)?;
            if let Some(text) = &entry.text {
                let set = Set::parse(&mut serde_json::Deserializer::from_str(text.get()));
                entry.set = set.map_err(|error| format!("fieldsV1: {error}"))?;
            }
            entry.text.take_if(|_| entry.set.is_empty());
            Ok((identity, entry))
        })
    }

    /// The same, with the sets left as the texts that they are.
    ///
    /// # Errors
    /// What is wrong with it, but for the sets.
    pub(super) fn recall(record: &[u8]) -> Result<Self, String> {
        Self::read_by(record, recall)
    }

    fn read_by(
        record: &[u8],
        row: impl Fn(&str) -> Result<(Identity, Entry), String>,
    ) -> Result<Self, String> {
        if record.is_empty() {
            return Ok(Self::default());
        }
        let texts: Option<Vec<&RawValue>> =
            serde_json::from_slice(record).map_err(|_| "metadata.managedFields is no list".to_owned())?;
        let entry = |(index, text): (usize, &&RawValue)| {
            row(text.get()).map_err(|what| format!("metadata.managedFields[{index}]: {what}"))
        };
        texts.iter().flatten().enumerate().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// The record; empty when nobody owns anything.
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

    /// Everything that somebody owns.
    pub(super) fn owned(&self) -> Set {
        self.0.values().fold(Set::default(), |owned, entry| owned.union(entry.set.clone()))
    }

    /// Fits what was written down to the type as it is now.
    pub(super) fn settle(&mut self, shape: Shape<'_>) {
        for entry in self.0.values_mut() {
            if entry.set.settle(shape) {
                entry.text = None;
            }
        }
    }

    /// Takes fields from every manager, but for `but`.
    pub(super) fn take_from_others(&mut self, set: &Set, but: Option<&Identity>) {
        for (identity, entry) in &mut self.0 {
            if Some(identity) != but && entry.set.subtract(set) {
                entry.text = None;
            }
        }
        self.0.retain(|_, entry| !entry.set.is_empty());
    }

    /// Whether there are so many entries that some may have to be merged.
    pub(super) fn is_crowded(&self) -> bool {
        self.0.len() > MAX_UPDATE_MANAGERS
    }

    /// Merges the oldest entries that did not come by apply, so that there are not too many.
    pub(super) fn cap(&mut self) {
        let mut updates: Vec<Identity> =
            self.0.keys().filter(|identity| identity.operation == Operation::Update).cloned().collect();
        let mut excess = updates.len().saturating_sub(MAX_UPDATE_MANAGERS);
        if excess == 0 {
            return;
        }
        let second = |identity: &Identity| {
            self.0.get(identity).and_then(|entry| entry.time).map_or(0, Timestamp::as_second)
        };
        updates.sort_by_cached_key(|identity| (second(identity), identity.clone()));
        let mut oldest = HashMap::<String, Identity>::new();
        for identity in updates {
            if excess == 0 {
                break;
            }
            let version = identity.api_version.clone();
            let Some(first) = oldest.get(&version).cloned() else {
                oldest.insert(version, identity);
                continue;
            };
            let ancient = Identity {
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

    /// Adds what a manager owns to what it owned before. The time is the newer one's.
    pub(super) fn add(&mut self, identity: Identity, entry: Entry) {
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

/// True when two records say the same, but for times.
pub fn is_same_but_for_times(record: &[u8], other: &[u8]) -> bool {
    // Times also put entries in order.
    let timeless = |record: &[u8]| {
        let mut read = Managed::read(record).ok()?;
        read.0.values_mut().for_each(|entry| entry.time = None);
        Some(read)
    };
    record == other || timeless(record).is_some_and(|read| Some(read) == timeless(other))
}

fn recall(text: &str) -> Result<(Identity, Entry), String> {
    let Row { manager, operation, api_version, time, fields_type, fields, subresource } =
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
                .map_err(|_| format!("time `{time}` is no time; write it like 2006-01-02T15:04:05Z"))?,
        ),
    };
    let identity = Identity {
        operation,
        manager: manager.unwrap_or_default(),
        api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
        subresource: subresource.unwrap_or_default(),
    };
    let text = fields.filter(|fields| fields.get() != "{}").map(RawValue::to_owned);
    Ok((identity, Entry { api_version, time, set: Set::default(), text }))
}

fn print<'a>(identity: &'a Identity, entry: &'a Entry) -> Printed<'a> {
    Printed {
        manager: &identity.manager,
        operation: identity.operation.name(),
        api_version: &entry.api_version,
        time: entry.time.map(crate::time::seconds),
        fields_type: "FieldsV1",
        fields: entry.text.as_deref().map_or(Fields::Set(&entry.set), Fields::AsRead),
        subresource: &identity.subresource,
    }
}
