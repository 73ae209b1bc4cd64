//! Notes who changed what by creating, replacing or patching an object.

use serde_json::{Map, Value};

use super::compare::Comparison;
use super::managed::{Entry, Managed, Operation};
use super::writer::{Part, Writer};
use crate::patch::{MAX_DEPTH, fits_but_for_record};

/// Brings the managed fields of `new`, which is about to be stored in place of `live`, up to date: what is different now
/// belongs to the writer, and what is gone to nobody. `new` is the whole object as it will be stored, so what the writer
/// may not change is as it was.
///
/// A client may hand in managed fields of its own; an empty list makes the server forget who owns what until somebody
/// applies again. What does not read is ignored.
pub fn track_update(live: Option<&Map<String, Value>>, new: &mut Map<String, Value>, writer: &Writer<'_>) {
    let given = Managed::take(new);
    let mut managed = choose(live.and_then(Managed::of), given.as_ref(), writer.part);
    if managed.0.is_empty() && live.is_some() {
        // Nobody is tracked: either from the beginning, or not before somebody applies.
        return;
    }
    let nothing = Map::new();
    let before = live.unwrap_or(&nothing);
    if !fits_but_for_record(before, MAX_DEPTH) || !fits_but_for_record(new, MAX_DEPTH) {
        // Its record would be too deep to be read again.
        managed.put(new);
        return;
    }
    managed.settle(writer.shape);

    // The record itself, which only the old object still has, is nobody's.
    let comparison = Comparison::of_objects(before, new, writer.shape).map(|set| writer.restrict(set));
    let Comparison { removed, modified, added } = comparison;
    let changed = modified.union(added);
    let identity = writer.identity(Operation::Update);
    managed.take_from_others(&removed, None);
    managed.take_from_others(&changed, Some(&identity));
    let owned = writer.ownable(changed);
    if !owned.is_empty() {
        let entry = Entry { api_version: writer.api_version.to_owned(), time: Some(writer.now), set: owned };
        managed.add(identity, entry);
    }
    managed.cap();
    managed.put(new);
}

/// Which managed fields count: those that the client hands in, when it means to.
fn choose(recorded: Option<&Value>, given: Option<&Value>, part: Part<'_>) -> Managed {
    let recorded = || Managed::read(recorded).unwrap_or_default();
    match part {
        Part::Status | Part::Other(_) => recorded(),
        Part::Whole | Part::Main if given.is_some_and(is_reset) => Managed::default(),
        Part::Whole | Part::Main => {
            Managed::read(given).ok().filter(|given| !given.0.is_empty()).unwrap_or_else(recorded)
        }
    }
}

/// True for an empty list, and for one with an empty entry only.
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
