//! `metadata.managedFields`: who owns what.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

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
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
    pub(super) set: Set,
}

/// Who owns what of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managed(pub(super) BTreeMap<Identity, Entry>);

impl Managed {
    /// Takes the managed fields out of an object, as they stand there.
    pub(super) fn take(object: &mut Map<String, Value>) -> Option<Value> {
        object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
    }

    /// The managed fields of an object, as they stand there.
    pub(super) fn of(object: &Map<String, Value>) -> Option<&Value> {
        object.get("metadata")?.get("managedFields")
    }

    /// Reads managed fields; none when there are none.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(managed: Option<&Value>) -> Result<Self, String> {
        let entries = match managed {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err("metadata.managedFields is no list".to_owned()),
        };
        let entry =
            |(index, entry)| read(entry).map_err(|what| format!("metadata.managedFields[{index}]: {what}"));
        entries.iter().enumerate().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// Puts them into an object, or takes them out when nobody owns anything.
    pub(super) fn put(&self, object: &mut Map<String, Value>) {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Some(metadata) = metadata.as_object_mut() else { return };
        let mut entries: Vec<_> = self.0.iter().filter(|(_, entry)| !entry.set.is_empty()).collect();
        if entries.is_empty() {
            metadata.shift_remove("managedFields");
            return;
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
        let entries = entries.into_iter().map(|(identity, entry)| print(identity, entry)).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }

    /// Everything that somebody owns.
    pub(super) fn owned(&self) -> Set {
        self.0.values().fold(Set::default(), |owned, entry| owned.union(entry.set.clone()))
    }

    /// Fits what was written down to the type as it is now.
    pub(super) fn settle(&mut self, shape: Shape<'_>) {
        self.0.values_mut().for_each(|entry| entry.set = std::mem::take(&mut entry.set).settled(shape));
    }

    /// Takes fields from every manager, but for `but`.
    pub(super) fn take_from_others(&mut self, set: &Set, but: Option<&Identity>) {
        for (identity, entry) in &mut self.0 {
            if Some(identity) != but {
                entry.set = std::mem::take(&mut entry.set).difference(set);
            }
        }
        self.0.retain(|_, entry| !entry.set.is_empty());
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
                before.set = std::mem::take(&mut before.set).union(entry.set);
                before.time = before.time.max(entry.time);
                before.api_version = entry.api_version;
            }
        }
    }
}

/// True when an object is as it was, but for the times of its managed fields: then nobody changed anything, and the one
/// that is stored stays.
pub fn is_same_but_for_times(live: &Value, new: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.shift_remove("time");
        }
        // Times also put entries in order.
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        if let Some(entries) = entries {
            entries.sort_by_cached_key(Value::to_string);
        }
        object
    };
    live == new || timeless(live) == timeless(new)
}

fn read(entry: &Value) -> Result<(Identity, Entry), String> {
    let text = |name: &str| match entry.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!("{name} is {other}, which is no string")),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType")? {
        "FieldsV1" => {}
        "" => return Err("missing fieldsType".to_owned()),
        other => return Err(format!("invalid fieldsType \"{other}\"; it is FieldsV1")),
    }
    let time = match text("time")? {
        "" => None,
        time => Some(
            time.parse()
                .map_err(|_| format!("time `{time}` is no time; write it like 2006-01-02T15:04:05Z"))?,
        ),
    };
    let identity = Identity {
        operation,
        manager: text("manager")?.to_owned(),
        api_version: if operation == Operation::Apply { String::new() } else { api_version.to_owned() },
        subresource: text("subresource")?.to_owned(),
    };
    let set = Set::parse(entry.get("fieldsV1").unwrap_or(&Value::Null))?;
    Ok((identity, Entry { api_version: api_version.to_owned(), time, set }))
}

fn print(identity: &Identity, entry: &Entry) -> Value {
    let mut printed = json!({
        "manager": identity.manager,
        "operation": identity.operation.name(),
        "apiVersion": entry.api_version,
    });
    if let Some(time) = entry.time {
        printed["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    }
    printed["fieldsType"] = "FieldsV1".into();
    printed["fieldsV1"] = entry.set.to_fields();
    if !identity.subresource.is_empty() {
        printed["subresource"] = identity.subresource.as_str().into();
    }
    printed
}
