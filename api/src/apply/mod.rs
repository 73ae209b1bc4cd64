//! Server-side apply: clients say what they want, and the server remembers who wanted what.
//!
//! Every field has owners, recorded in `metadata.managedFields`, which is kept apart from the object here. [`apply`] merges what a client wants into an object,
//! removes what it no longer wants, and refuses what another owner would lose; [`track_update`] notes what every other
//! write changed. Both are pure. Entries of other API versions are read as if their fields were those of the version
//! that is written: there is no conversion here.

mod compare;
mod conflict;
mod extract;
mod last_applied;
mod managed;
mod merge;
mod parts;
mod remove;
mod set;
#[cfg(test)]
mod tests;
mod track;
mod writer;

use serde_json::{Map, Value};
use thiserror::Error;

pub use self::conflict::{Conflict, Conflicts};
pub use self::extract::extract;
pub use self::managed::is_same_but_for_times;
pub use self::set::{Element, FieldPath, Set};
pub use self::track::track_update;
pub use self::writer::{Part, Writer, manager_of};

use self::compare::{Comparison, same_but_for_nulls};
use self::managed::{Entry, Identity, Managed, Operation};
use crate::patch::{MAX_DEPTH, fits};
use crate::path::Path;
use crate::shape::Shape;

/// The manager that owns what was there before anybody was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What an apply makes of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object, without its record.
    pub object: Value,
    /// Who owns what of it.
    pub record: Vec<u8>,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// What was applied cannot be; HTTP 400.
    #[error("{0}")]
    Malformed(String),
    /// Others own what would change; HTTP 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
}

/// Applies `applied`, the part of an object that a manager wants, to the `live` one with its record, or makes the object.
/// With `force` the manager takes what others own.
///
/// # Errors
/// [`Refusal::Conflicts`] names every field that others own and that would get another value.
pub fn apply(
    live: Option<&Value>,
    recorded: &[u8],
    applied: &Value,
    force: bool,
    writer: &Writer<'_>,
) -> Result<Applied, Refusal> {
    let before = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    check(&before, applied, writer)?;
    let mut managed = Managed::read(recorded)
        .map_err(|what| Refusal::Malformed(format!("failed to decode managed fields: {what}")))?;
    if managed.0.is_empty() && live.is_some() {
        let writer = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        let set = writer.ownable(extract(&before, writer.shape));
        managed.add(writer.identity(Operation::Update), entry(&writer, set));
    }
    managed.settle(writer.shape);

    let wanted = writer.restrict_applied(applied);
    let identity = writer.identity(Operation::Apply);
    let all = writer.restrict(extract(&wanted, writer.shape));
    let set = writer.ownable(all.clone());
    let last = managed.0.remove(&identity);
    managed.0.insert(identity.clone(), entry(writer, set));

    let merged = merge::merge(&before, &wanted, writer.shape);
    let last_set = last.as_ref().map(|last| last.set.clone()).unwrap_or_default();
    // What nobody can own, such as the name, stays all the same: the applier has named it.
    let mut object = remove::prune(merged, last_set, managed.owned().union(all), writer.shape);

    let comparison = Comparison::of(&before, &object, writer.shape).map(|set| writer.restrict(set));
    let taken = comparison.set();
    if !force {
        refuse_conflicts(&managed, &identity, &taken, &before, writer)?;
    }
    managed.take_from_others(&taken, Some(&identity));
    managed.take_from_others(&comparison.removed, Some(&identity));

    let is_same = same_but_for_nulls(&before, &object);
    if is_same {
        object = before;
    }
    if let (true, Some(last), Some(own)) = (is_same, last, managed.0.get_mut(&identity))
        && last.set == own.set
        && last.api_version == own.api_version
    {
        own.time = last.time;
    }
    last_applied::renew(&mut object, applied, writer);
    Ok(Applied { object, record: managed.record() })
}

/// An object with another one laid over it, as an apply lays it; nobody owns what it says, and nothing is removed.
///
/// # Errors
/// What of it cannot be merged.
pub fn laid_over(object: &Value, over: &Value, shape: Shape<'_>) -> Result<Value, String> {
    if !fits(over, MAX_DEPTH) || !fits(object, MAX_DEPTH) {
        return Err(format!("what is applied nests deeper than {MAX_DEPTH}"));
    }
    merge::check(over, shape, &Path::ROOT)?;
    Ok(merge::merge(object, over, shape))
}

fn entry(writer: &Writer<'_>, set: Set) -> Entry {
    Entry::new(writer.api_version, writer.now, set)
}

/// Refuses what cannot be applied, whoever owns what.
fn check(before: &Value, applied: &Value, writer: &Writer<'_>) -> Result<(), Refusal> {
    let malformed = |what: String| Err(Refusal::Malformed(what));
    if !applied.is_object() {
        return malformed("what is applied is an object".to_owned());
    }
    if !fits(applied, MAX_DEPTH) || !fits(before, MAX_DEPTH) {
        return malformed(format!("the object nests deeper than {MAX_DEPTH}; flatten it"));
    }
    let api_version = applied.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if api_version != writer.api_version {
        return malformed(format!(
            "Incorrect version specified in apply patch. Specified patch version: {api_version}, expected: {}",
            writer.api_version
        ));
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|managed| !managed.is_null()) {
        return malformed("metadata.managedFields must be nil".to_owned());
    }
    merge::check(applied, writer.shape, &Path::ROOT)
        .map_err(|what| Refusal::Malformed(format!("failed to create typed patch object: {what}")))
}

/// Refuses to take what others own, unless that is what a client-side apply has put there before.
fn refuse_conflicts(
    managed: &Managed,
    own: &Identity,
    taken: &Set,
    before: &Value,
    writer: &Writer<'_>,
) -> Result<(), Conflicts> {
    let mut conflicts = Conflicts::default();
    let mut mine = None;
    for (identity, entry) in managed.0.iter().filter(|(identity, _)| *identity != own) {
        let mut contested = entry.set.intersection(taken);
        if !contested.is_empty() {
            let mine = mine.get_or_insert_with(|| last_applied::owned(before, writer).unwrap_or_default());
            contested = contested.difference(mine);
        }
        conflicts.add(identity, &contested);
    }
    conflicts.0.sort_by(|a, b| a.manager.cmp(&b.manager));
    if conflicts.is_empty() { Ok(()) } else { Err(conflicts) }
}
