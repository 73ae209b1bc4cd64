//! What a kind does beyond being stored: what it fills in, what it decides, what it refuses.
//!
//! Pure: an object comes as the map it is stored as, so that fields this version does not know are kept. A kind without
//! logic of its own has [`Plain`].

mod cause;

pub use cause::{Cause, Reason};
use serde_json::{Map, Value};

/// An object as it is stored and sent.
pub type Json = Map<String, Value>;

/// Which part of an object a write is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// All but the status, where that has a path of its own.
    Main,
    /// The status alone.
    Status,
    /// Another part with a path of its own: `ephemeralcontainers`, `resize`, `approval`.
    Sub(&'a str),
}

/// The logic of one kind. Metadata (names, UIDs, times, generations) is not its business.
pub trait Strategy: Send + Sync {
    /// Fills in what the client left out, on a create as on an update.
    fn default(&self, _object: &mut Json) {}

    /// Decides what is not the client's to decide: on a create `before` is `None`.
    fn prepare(&self, _object: &mut Json, _before: Option<&Json>, _part: &Part<'_>) {}

    /// Everything that is wrong with the object, or with what the update changes.
    fn validate(&self, _object: &Json, _before: Option<&Json>, _part: &Part<'_>) -> Vec<Cause> {
        Vec::new()
    }

    /// What is allowed and unwise, for `Warning` headers.
    fn warnings(&self, _object: &Json) -> Vec<String> {
        Vec::new()
    }
}

/// A kind without logic of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}

/// The logic of a built-in kind; `group` is empty for the core one.
pub fn of(_group: &str, _kind: &str) -> &'static dyn Strategy {
    &Plain
}
