//! Notes who changed what by creating, replacing or patching an object.

use serde_json::{Map, Value};

use super::compare::Comparison;
use super::managed::{Entry, Managed, Operation};
use super::set::Set;
use super::writer::{Part, Writer};
use crate::patch::{MAX_DEPTH, fits_each};

/// The record of `new`, which is about to be stored in place of `live` and its record: what is different now belongs to the
/// writer, and what is gone to nobody. `new` is the whole object as it will be stored, so what the writer may not change is
/// as it was.
///
/// A client may hand in a record of its own, in the object, where it is taken from; an empty list makes the server forget
/// who owns what until somebody applies again. What does not read is ignored.
pub fn track_update(
    live: Option<&Map<String, Value>>,
    recorded: &[u8],
    new: &mut Map<String, Value>,
    writer: &Writer<'_>,
) -> Vec<u8> {
    let given = Managed::take(new);
    let nothing = Map::new();
    let before = live.unwrap_or(&nothing);
    if !fits_each(before, MAX_DEPTH) || !fits_each(new, MAX_DEPTH) {
        // Its record would be too deep to be read again.
        return choose(recorded, given.as_ref(), writer.part).record();
    }
    let comparison = Comparison::of_objects(before, new, writer.shape).map(|set| writer.restrict(set));
    let Comparison { removed, modified, added } = comparison;
    let changed = modified.union(added);
    let retold = if given.is_none() { retold(recorded, &removed, &changed, writer) } else { None };
    retold.unwrap_or_else(|| {
        let managed = choose(recorded, given.as_ref(), writer.part);
        // Nobody is tracked: either from the beginning, or not before somebody applies.
        if managed.0.is_empty() && live.is_some() {
            Vec::new()
        } else {
            told(managed, &removed, changed, writer)
        }
    })
}

/// The record after a write.
fn told(mut managed: Managed, removed: &Set, changed: Set, writer: &Writer<'_>) -> Vec<u8> {
    let identity = writer.identity(Operation::Update);
    managed.settle(writer.shape);
    managed.take_from_others(removed, None);
    managed.take_from_others(&changed, Some(&identity));
    let owned = writer.ownable(changed);
    if !owned.is_empty() {
        managed.add(identity, Entry::new(writer.api_version, writer.now, owned));
    }
    managed.cap();
    managed.record()
}

/// The same after a write of what the writer owns already and nobody else, as most writes are: only a time is another; or of
/// what nobody owns, by who owned nothing before. The sets are not read for that. `None` for every other write.
fn retold(recorded: &[u8], removed: &Set, changed: &Set, writer: &Writer<'_>) -> Option<Vec<u8>> {
    let mut managed = Managed::recall(recorded).ok()?;
    if managed.0.is_empty() || managed.is_crowded() {
        return None;
    }
    let identity = &writer.identity(Operation::Update);
    let owned = writer.ownable(changed.clone());
    for (other, entry) in &managed.0 {
        let common = |set: &Set| entry.common(set, writer.shape);
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
        if managed.is_crowded() {
            return None;
        }
    }
    Some(managed.record())
}

/// Which record counts: the one that the client hands in, when it means to.
fn choose(recorded: &[u8], given: Option<&Value>, part: Part<'_>) -> Managed {
    let recorded = || Managed::read(recorded).unwrap_or_default();
    let given = match part {
        Part::Status | Part::Other(_) => None,
        Part::Whole | Part::Main => given,
    };
    let Some(given) = given else { return recorded() };
    if is_reset(given) {
        return Managed::default();
    }
    let read = Managed::read(&serde_json::to_vec(given).unwrap_or_default());
    read.ok().filter(|given| !given.0.is_empty()).unwrap_or_else(recorded)
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

#[cfg(test)]
mod tests;
