//! Server-side apply: merges applied configurations and tracks which field manager owns which field.
//!
//! Field owners are recorded in `metadata.managedFields`, which this module takes and returns separately from the
//! object. [`apply`] merges an applied configuration, removes fields that the manager no longer applies, and rejects
//! conflicts with other managers. [`track_update`] records the field owners after any other write. Both functions are
//! pure. There is no conversion between API versions: entries of another version are read as if they used the version
//! of the request.

mod compare;
mod conflict;
mod extract;
mod field_set;
mod last_applied;
mod managed;
mod merge;
mod remove;
#[cfg(test)]
mod tests;
mod typed;
mod update;
mod writer;

use serde_json::{Map, Value};
use thiserror::Error;

pub use self::conflict::{Conflict, Conflicts};
pub use self::extract::extract;
pub use self::field_set::{FieldPath, FieldSet, PathElement};
pub use self::managed::is_same_but_for_times;
pub use self::update::track_update;
pub use self::writer::{Part, Writer, manager_of};

use self::compare::{Comparison, same_but_for_nulls};
use self::managed::{Entry, ManagedFields, ManagerIdentity, Operation};
use crate::patch::{MAX_DEPTH, fits};
use crate::path::Path;
use crate::shape::Shape;

/// The manager of all fields that were set before managed fields were tracked; the stock name.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object, without `managedFields`.
    pub object: Value,
    /// The encoded `managedFields`.
    pub record: Vec<u8>,
}

/// The reasons to reject an apply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The applied configuration is invalid; HTTP 400.
    #[error("{0}")]
    Malformed(String),
    /// Other managers own fields that would change; HTTP 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
}

/// Applies the configuration `applied` to the `live` object, or creates the object. With `force`, the manager takes
/// over fields that conflict.
///
/// # Errors
/// [`ApplyError::Conflicts`] if fields that other managers own would change. The error lists all of them.
pub fn apply(
    live: Option<&Value>,
    recorded: &[u8],
    applied: &Value,
    force: bool,
    writer: &Writer<'_>,
) -> Result<Applied, ApplyError> {
    let before = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    check(&before, applied, writer)?;
    let mut managed = ManagedFields::read(recorded)
        .map_err(|what| ApplyError::Malformed(format!("failed to decode managed fields: {what}")))?;
    if managed.0.is_empty() && live.is_some() {
        let writer = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        let set = writer.ownable(extract(&before, writer.shape));
        managed.add(writer.identity(Operation::Update), entry(&writer, set));
    }
    managed.reconcile(writer.shape);

    let wanted = writer.restrict_applied(applied);
    let identity = writer.identity(Operation::Apply);
    let all = writer.restrict(extract(&wanted, writer.shape));
    let set = writer.ownable(all.clone());
    let last = managed.0.remove(&identity);
    managed.0.insert(identity.clone(), entry(writer, set));

    let merged = merge::merge(&before, &wanted, writer.shape);
    let last_set = last.as_ref().map(|last| last.set.clone()).unwrap_or_default();
    // Fields that cannot be owned, such as the name, are kept if the applied configuration contains them.
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

/// Merges `over` into `object` as an apply would, but without field owners and removals.
///
/// # Errors
/// If a part of `over` cannot be merged. The error describes it.
pub fn merge_over(object: &Value, over: &Value, shape: Shape<'_>) -> Result<Value, String> {
    if !fits(over, MAX_DEPTH) || !fits(object, MAX_DEPTH) {
        return Err(format!("the applied configuration nests deeper than {MAX_DEPTH}"));
    }
    merge::check(over, shape, &Path::ROOT)?;
    Ok(merge::merge(object, over, shape))
}

fn entry(writer: &Writer<'_>, set: FieldSet) -> Entry {
    Entry::new(writer.api_version, writer.now, set)
}

/// Rejects invalid configurations, independent of field owners.
fn check(before: &Value, applied: &Value, writer: &Writer<'_>) -> Result<(), ApplyError> {
    let malformed = |what: String| Err(ApplyError::Malformed(what));
    if !applied.is_object() {
        return malformed("the applied configuration must be an object".to_owned());
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
        .map_err(|what| ApplyError::Malformed(format!("failed to create typed patch object: {what}")))
}

/// Rejects conflicts, except for fields that client-side apply of the same client has set.
fn refuse_conflicts(
    managed: &ManagedFields,
    own: &ManagerIdentity,
    taken: &FieldSet,
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
