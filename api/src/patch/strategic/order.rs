//! The order of merged lists. The patch sets the order of its elements; other elements keep their position.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// The identity of an element as JSON, so that `1` differs from `"1"`: its merge key, or the value of a scalar.
pub(super) type Ident = String;

/// Sorts `items`. Items in `wanted` follow that order, others the order `before`. An item that is not in `wanted` comes
/// before the first item of `wanted` that it preceded.
pub(super) fn arrange(
    items: Vec<(Ident, Value)>,
    wanted: &[Ident],
    before: &HashMap<Ident, usize>,
) -> Vec<(Ident, Value)> {
    let mut places = HashMap::with_capacity(wanted.len());
    for (place, ident) in wanted.iter().enumerate() {
        places.entry(ident.as_str()).or_insert(place);
    }
    let (mut listed, others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|(ident, _)| places.contains_key(ident.as_str()));
    listed.sort_by_key(|(ident, _)| places.get(ident.as_str()).copied());

    let mut arranged = Vec::with_capacity(listed.len() + others.len());
    let mut listed = listed.into_iter().peekable();
    for other in others {
        let precedes = |next: &(Ident, Value)| {
            before.get(&other.0).zip(before.get(&next.0)).is_some_and(|(other, next)| other < next)
        };
        while let Some(next) = listed.next_if(|next| !precedes(next)) {
            arranged.push(next);
        }
        arranged.push(other);
    }
    arranged.extend(listed);
    arranged
}

/// True if `part` is a subsequence of `whole`.
pub(super) fn is_in_order(part: &[Ident], whole: &[Ident]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|ident| rest.any(|other| other == ident))
}

/// The index of the first occurrence of each identity.
pub(super) fn places<'i>(idents: impl Iterator<Item = &'i Ident>) -> HashMap<Ident, usize> {
    let mut places = HashMap::new();
    for (place, ident) in idents.enumerate() {
        places.entry(ident.clone()).or_insert(place);
    }
    places
}

/// Removes all but the first occurrence of each identity.
pub(super) fn without_repeats(items: Vec<(Ident, Value)>) -> Vec<(Ident, Value)> {
    let mut seen = HashSet::with_capacity(items.len());
    items.into_iter().filter(|(ident, _)| seen.insert(ident.clone())).collect()
}
