//! Tests of sequences of applies and updates by several managers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod applies;
mod migration;
mod properties;
mod updates;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{ApplyError, Part, Writer, apply, track_update};
use crate::shape::{Shape, sample};

/// A stored object, and a clock that advances by one second per request.
struct Story {
    object: Option<Value>,
    shape: Shape<'static>,
    api_version: &'static str,
    part: Part<'static>,
    second: i64,
    changed: bool,
}

impl Story {
    fn new(shape: Shape<'static>, api_version: &'static str) -> Self {
        Self { object: None, shape, api_version, part: Part::Main, second: 0, changed: false }
    }

    fn pod() -> Self {
        Self::new(sample::pod(), "v1")
    }

    fn deployment() -> Self {
        Self::new(sample::deployment(), "apps/v1")
    }

    fn at(mut self, part: Part<'static>) -> Self {
        self.part = part;
        self
    }

    fn writer(&mut self, manager: &'static str) -> Writer<'static> {
        self.second += 1;
        let now = Timestamp::from_second(self.second).unwrap();
        Writer { manager, part: self.part, api_version: self.api_version, shape: self.shape, now }
    }

    fn try_apply(
        &mut self,
        manager: &'static str,
        mut applied: Value,
        force: bool,
    ) -> Result<(), ApplyError> {
        if applied.get("apiVersion").is_none() {
            applied["apiVersion"] = self.api_version.into();
        }
        let writer = self.writer(manager);
        let new = applied_to(self.object.as_ref(), &applied, force, &writer)?;
        self.changed = self.object.as_ref() != Some(&new);
        self.object = Some(new);
        Ok(())
    }

    fn apply(mut self, manager: &'static str, applied: Value) -> Self {
        self.try_apply(manager, applied, false).unwrap();
        self
    }

    fn force(mut self, manager: &'static str, applied: Value) -> Self {
        self.try_apply(manager, applied, true).unwrap();
        self
    }

    /// The error of an apply without force.
    fn refused(&mut self, manager: &'static str, applied: Value) -> String {
        match self.try_apply(manager, applied, false) {
            Err(refusal) => refusal.to_string(),
            Ok(()) => panic!("applied: {:?}", self.object),
        }
    }

    /// Updates the object with `change`.
    fn update(mut self, manager: &'static str, change: impl FnOnce(&mut Value)) -> Self {
        let mut new = self.object.clone().unwrap_or_else(|| json!({}));
        change(&mut new);
        let writer = self.writer(manager);
        update(self.object.as_ref(), &mut new, &writer);
        self.object = Some(new);
        self
    }

    fn create(self, manager: &'static str, object: Value) -> Self {
        self.update(manager, |new| *new = object)
    }

    fn get(&self, pointer: &str) -> Option<&Value> {
        self.object.as_ref().unwrap().pointer(pointer)
    }

    /// The object without managed fields.
    fn plain(&self) -> Value {
        apart(self.object.as_ref()).0.unwrap()
    }

    /// The owners of all leaves, in the order of the entries: `a Apply@1 .spec.x .spec.y`.
    fn owners(&self) -> Vec<String> {
        let entries = self.get("/metadata/managedFields").cloned().unwrap_or_else(|| json!([]));
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let owner = |entry: &Value| {
            let time: Timestamp = text(entry, "time").parse().unwrap();
            let fields = super::FieldSet::parse(&entry["fieldsV1"]).unwrap().paths();
            let fields: String = fields.iter().map(|path| format!(" {path}")).collect();
            let subresource =
                entry["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
            format!(
                "{}{subresource} {}@{}{fields}",
                text(entry, "manager"),
                text(entry, "operation"),
                time.as_second()
            )
        };
        entries.as_array().unwrap().iter().map(owner).collect()
    }
}

/// Splits an object into the object and its managed fields.
fn apart(object: Option<&Value>) -> (Option<Value>, Vec<u8>) {
    let mut object = object.cloned();
    let record = object.as_mut().and_then(Value::as_object_mut).and_then(super::managed::ManagedFields::take);
    (object, record.map(|record| serde_json::to_vec(&record).unwrap()).unwrap_or_default())
}

/// Adds the managed fields to the object.
fn record(object: &mut Map<String, Value>, record: &[u8]) {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let (Some(metadata), false) = (metadata.as_object_mut(), record.is_empty()) {
        metadata.insert("managedFields".to_owned(), serde_json::from_slice(record).unwrap());
    }
}

/// Applies a configuration to a live object.
fn applied_to(
    live: Option<&Value>,
    applied: &Value,
    force: bool,
    writer: &Writer<'_>,
) -> Result<Value, ApplyError> {
    let (live, recorded) = apart(live);
    let mut made = apply(live.as_ref(), &recorded, applied, force, writer)?;
    if let Some(object) = made.object.as_object_mut() {
        record(object, &made.record);
    }
    Ok(made.object)
}

/// Tracks an update of a live object.
fn update(live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let (live, recorded) = apart(live);
    let new = new.as_object_mut().unwrap();
    let made = track_update(live.as_ref().and_then(Value::as_object), &recorded, new, writer);
    record(new, &made);
}

/// An applied configuration with a spec.
fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}
