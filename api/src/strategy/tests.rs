//! Tests of strategies through the functions that the API server calls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod governance;
mod kinds;
mod large;
mod metadata;
mod quotas;

use serde_json::Value;

use super::{Cause, Json, Part, mistyped, of};
use crate::schema;

/// An object with the strategy of its kind.
pub(super) struct Case {
    group: String,
    kind: String,
    pub object: Json,
    before: Option<Json>,
    version: String,
}

impl Case {
    /// A new object with defaults, prepared.
    pub fn new(object: Value) -> Self {
        let mut case = Self::raw(object, None);
        case.prepare(&Part::Main);
        case
    }

    /// An update of an existing object with `change`.
    pub fn update(before: &Json, part: &Part<'_>, change: impl FnOnce(&mut Value)) -> Self {
        let mut object = Value::Object(before.clone());
        change(&mut object);
        let mut case = Self::raw(object, Some(before.clone()));
        case.prepare(part);
        case
    }

    fn raw(object: Value, before: Option<Json>) -> Self {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        Self { group, kind, object: object.as_object().unwrap().clone(), before, version }
    }

    fn prepare(&mut self, part: &Part<'_>) {
        let strategy = of(&self.group, &self.kind);
        schema::normalize(&mut self.object, &self.version, &self.kind);
        strategy.default(&mut self.object).unwrap();
        strategy.prepare(&mut self.object, self.before.as_ref(), part);
        let once = self.object.clone();
        strategy.default(&mut self.object).unwrap();
        assert_eq!(once, self.object, "defaults are idempotent");
    }

    /// The causes of the object.
    pub fn causes(&self, part: &Part<'_>) -> Vec<Cause> {
        let errors = schema::normalize(&mut self.object.clone(), &self.version, &self.kind);
        match &*errors {
            [] => of(&self.group, &self.kind).validate(&self.object, self.before.as_ref(), part),
            errors => mistyped(errors, &self.object),
        }
    }

    /// The causes as `field: message`.
    pub fn messages(&self, part: &Part<'_>) -> Vec<String> {
        self.causes(part).iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    /// The value at a JSON pointer.
    pub fn at(&self, pointer: &str) -> Value {
        Value::Object(self.object.clone()).pointer(pointer).cloned().unwrap_or_default()
    }
}

/// Expects that an object with `change` is rejected with a cause at `field` whose message contains `words`.
#[track_caller]
pub(super) fn refused(object: &Value, change: impl FnOnce(&mut Value), field: &str, words: &str) {
    let mut object = object.clone();
    change(&mut object);
    let messages = Case::new(object).messages(&Part::Main);
    assert!(
        messages.iter().any(|line| line.starts_with(&format!("{field}: ")) && line.contains(words)),
        "{messages:#?}"
    );
}

/// Expects that an update is rejected likewise, or accepted if `field` is empty.
#[track_caller]
pub(super) fn change(
    before: &Json,
    part: &Part<'_>,
    change: impl FnOnce(&mut Value),
    field: &str,
    words: &str,
) {
    let messages = Case::update(before, part, change).messages(part);
    if field.is_empty() {
        assert_eq!(messages, [] as [&str; 0]);
        return;
    }
    assert!(
        messages.iter().any(|line| line.starts_with(&format!("{field}: ")) && line.contains(words)),
        "{messages:#?}"
    );
}

/// An existing object.
#[track_caller]
pub(super) fn stored(object: &Value) -> Json {
    let case = Case::new(object.clone());
    assert_eq!(case.messages(&Part::Main), [] as [&str; 0]);
    case.object
}
