//! Records field ownership for creates, updates and patches.

use serde_json::{Map, Value};

use super::compare::Comparison;
use super::field_set::FieldSet;
use super::managed::{Entry, ManagedFields, Operation};
use super::writer::{Part, Writer};
use crate::patch::{MAX_DEPTH, fits_each};

/// Returns the `managedFields` of `new`, which is about to replace `live`. The writer owns the fields that changed, and
/// removed fields lose their owners. `new` must be the complete object as it will be stored.
///
/// The client may send `managedFields` in the object; they are removed from it. An empty list resets ownership until
/// the next apply. Invalid `managedFields` are ignored.
pub fn track_update(
    live: Option<&Map<String, Value>>,
    recorded: &[u8],
    new: &mut Map<String, Value>,
    writer: &Writer<'_>,
) -> Vec<u8> {
    let given = ManagedFields::take(new);
    let nothing = Map::new();
    let before = live.unwrap_or(&nothing);
    if !fits_each(before, MAX_DEPTH) || !fits_each(new, MAX_DEPTH) {
        // The field set would nest too deep to be decoded again.
        return base_record(recorded, given.as_ref(), writer.part).record();
    }
    let comparison = Comparison::of_objects(before, new, writer.shape).map(|set| writer.restrict(set));
    let Comparison { removed, modified, added } = comparison;
    let changed = modified.union(added);
    let fast =
        if given.is_none() { updated_without_decoding(recorded, &removed, &changed, writer) } else { None };
    fast.unwrap_or_else(|| {
        let managed = base_record(recorded, given.as_ref(), writer.part);
        // Fields are tracked from the creation of the object or from the first apply on; this object has neither.
        if managed.0.is_empty() && live.is_some() {
            Vec::new()
        } else {
            updated_record(managed, &removed, changed, writer)
        }
    })
}

/// The record after a write.
fn updated_record(
    mut managed: ManagedFields,
    removed: &FieldSet,
    changed: FieldSet,
    writer: &Writer<'_>,
) -> Vec<u8> {
    let identity = writer.identity(Operation::Update);
    managed.reconcile(writer.shape);
    managed.take_from_others(removed, None);
    managed.take_from_others(&changed, Some(&identity));
    let owned = writer.ownable(changed);
    if !owned.is_empty() {
        managed.add(identity, Entry::new(writer.api_version, writer.now, owned));
    }
    managed.cap();
    managed.record()
}

/// Fast path that does not decode the field sets. It handles writes that change only fields which the writer alone owns
/// already, and writes of unowned fields by a new manager. `None` for all other writes.
fn updated_without_decoding(
    recorded: &[u8],
    removed: &FieldSet,
    changed: &FieldSet,
    writer: &Writer<'_>,
) -> Option<Vec<u8>> {
    let mut managed = ManagedFields::read_lazily(recorded).ok()?;
    if managed.0.is_empty() || managed.may_exceed_limit() {
        return None;
    }
    let identity = &writer.identity(Operation::Update);
    let owned = writer.ownable(changed.clone());
    for (other, entry) in &managed.0 {
        let common = |set: &FieldSet| entry.common(set, writer.shape);
        let is_untouched = common(removed)?.is_empty()
            && if other == identity { common(&owned)? == owned } else { common(changed)?.is_empty() };
        if !is_untouched {
            return None;
        }
    }
    if !owned.is_empty() {
        match managed.0.get_mut(identity) {
            Some(own) => own.time = own.time.max(Some(writer.now)),
            None => managed.add(identity.clone(), Entry::new(writer.api_version, writer.now, owned)),
        }
        if managed.may_exceed_limit() {
            return None;
        }
    }
    Some(managed.record())
}

/// Selects the record to start from: the one that the client sent, or the stored one.
fn base_record(recorded: &[u8], given: Option<&Value>, part: Part<'_>) -> ManagedFields {
    let recorded = || ManagedFields::read(recorded).unwrap_or_default();
    let given = match part {
        Part::Status | Part::Other(_) => None,
        Part::Whole | Part::Main => given,
    };
    let Some(given) = given else { return recorded() };
    if is_reset(given) {
        return ManagedFields::default();
    }
    let read = ManagedFields::read(&serde_json::to_vec(given).unwrap_or_default());
    read.ok().filter(|given| !given.0.is_empty()).unwrap_or_else(recorded)
}

/// True for an empty list and for a list with one empty entry.
fn is_reset(given: &Value) -> bool {
    match given {
        Value::Array(entries) => match &**entries {
            [] => true,
            [Value::Object(entry)] => entry.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
