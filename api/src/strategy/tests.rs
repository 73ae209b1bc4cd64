//! Strategies by what a client gets back: what an object becomes, and what is said of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod governance;
mod kinds;
mod metadata;

use serde_json::Value;

use super::{Cause, Json, Part, mistyped, of};
use crate::schema;

/// The kind's strategy over one object, as the API calls it.
pub(super) struct Case {
    group: String,
    kind: String,
    pub object: Json,
    before: Option<Json>,
    version: String,
}

impl Case {
    /// A new object, defaulted and prepared.
    pub fn new(object: Value) -> Self {
        let mut case = Self::raw(object, None);
        case.prepare(&Part::Main);
        case
    }

    /// An update of the object that is there by what `change` makes of it.
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
        schema::fit(&mut self.object, &self.version, &self.kind);
        strategy.default(&mut self.object);
        strategy.prepare(&mut self.object, self.before.as_ref(), part);
        let once = self.object.clone();
        strategy.default(&mut self.object);
        assert_eq!(once, self.object, "defaults are idempotent");
    }

    /// What is said of the object.
    pub fn causes(&self, part: &Part<'_>) -> Vec<Cause> {
        let faults = schema::fit(&mut self.object.clone(), &self.version, &self.kind);
        match &*faults {
            [] => of(&self.group, &self.kind).validate(&self.object, self.before.as_ref(), part),
            faults => mistyped(faults, &self.object),
        }
    }

    /// What is said of it, a line a cause.
    pub fn said(&self, part: &Part<'_>) -> Vec<String> {
        self.causes(part).iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    /// What stands at a pointer.
    pub fn at(&self, pointer: &str) -> Value {
        Value::Object(self.object.clone()).pointer(pointer).cloned().unwrap_or_default()
    }
}

/// An object with `change` made to it is refused with the cause at `field`, whose message holds `words`.
#[track_caller]
pub(super) fn refused(object: &Value, change: impl FnOnce(&mut Value), field: &str, words: &str) {
    let mut object = object.clone();
    change(&mut object);
    let said = Case::new(object).said(&Part::Main);
    assert!(
        said.iter().any(|line| line.starts_with(&format!("{field}: ")) && line.contains(words)),
        "{said:#?}"
    );
}

/// A change to an object is refused likewise; without a field it is allowed.
#[track_caller]
pub(super) fn change(
    before: &Json,
    part: &Part<'_>,
    change: impl FnOnce(&mut Value),
    field: &str,
    words: &str,
) {
    let said = Case::update(before, part, change).said(part);
    if field.is_empty() {
        assert_eq!(said, [] as [&str; 0]);
        return;
    }
    assert!(
        said.iter().any(|line| line.starts_with(&format!("{field}: ")) && line.contains(words)),
        "{said:#?}"
    );
}

/// An object that is there already.
#[track_caller]
pub(super) fn stored(object: &Value) -> Json {
    let case = Case::new(object.clone());
    assert_eq!(case.said(&Part::Main), [] as [&str; 0]);
    case.object
}
