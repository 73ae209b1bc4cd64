//! Merges lists: lists of objects by their merge key, lists of scalars as sets.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::directive::{self, Directive, malformed, misfit};
use crate::patch::PatchError;
use crate::path::Path;
use crate::shape::{Patch, Shape};

/// Merges a list of objects by the merge key `key`.
pub(super) fn merge_objects(
    target: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    key: &str,
    shape: Shape<'_>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let wanted = order.map(|order| idents_by(order, key, at)).transpose()?;
    let changes = Changes::read(patch, key, at)?;
    if changes.replace {
        // The list is replaced in this order. Duplicate keys are allowed, as in the addresses of a node.
        let fresh =
            changes.items.iter().map(|(_, fields, index)| directive::fresh_fields(fields, &at.index(*index)));
        *target = fresh.map(|fields| fields.map(Value::Object)).collect::<Result<_, _>>()?;
        return Ok(());
    }
    let current = std::mem::take(target);
    let mut items = Vec::with_capacity(current.len() + changes.items.len());
    for (index, element) in current.into_iter().enumerate() {
        let ident = ident_by(&element, key, &at.index(index))?;
        if !changes.deleted.contains(&ident) {
            items.push((ident, element));
        }
    }
    let before = places(items.iter().map(|(ident, _)| ident));
    let mut places = before.clone();
    for (ident, fields, index) in &changes.items {
        let at = at.index(*index);
        match places.get(ident).and_then(|place| items.get_mut(*place)) {
            Some((_, Value::Object(item))) => super::merge(item, fields, shape, &at)?,
            _ => {
                places.insert(ident.clone(), items.len());
                items.push((ident.clone(), Value::Object(directive::fresh_fields(fields, &at)?)));
            }
        }
    }
    let mentioned: Vec<Ident> = changes.items.into_iter().map(|(ident, ..)| ident).collect();
    finish(target, items, mentioned, wanted, &before, at)
}

/// Merges a list of scalars: the result is the union.
pub(super) fn merge_values(
    target: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let wanted = order.map(|order| idents(order, at)).transpose()?;
    let mentioned = idents(patch, at)?;
    let known = idents(target, at)?;
    let before = places(known.iter());
    let added = mentioned.iter().cloned().zip(patch.iter().cloned());
    let items: Vec<_> = known.into_iter().zip(std::mem::take(target)).chain(added).collect();
    finish(target, without_repeats(items), mentioned, wanted, &before, at)
}

/// Sorts a list that the object did not have before in the order of the patch.
pub(super) fn arrange_new(
    elements: &mut Vec<Value>,
    order: &[Value],
    how: Patch<'_>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let fresh = std::mem::take(elements);
    match how {
        Patch::MergeBy(key) => merge_objects(elements, &fresh, Some(order), key, Shape::UNKNOWN, at),
        Patch::Plain | Patch::Replace | Patch::Merge => merge_values(elements, &fresh, Some(order), at),
    }
}

/// Deletes `values` from a list of scalars.
pub(super) fn delete(
    target: &mut Value,
    values: &Value,
    how: Patch<'_>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let (Value::Array(elements), Patch::Merge) = (target, how) else {
        return Err(malformed(at, "$deleteFromPrimitiveList is only for lists of scalars that are merged"));
    };
    let gone: HashSet<Ident> = idents(directive::list(values, at)?, at)?.into_iter().collect();
    elements.retain(|element| !gone.contains(&element.to_string()));
    Ok(())
}

/// Validates the requested order, if any, and sorts the elements.
fn finish(
    target: &mut Vec<Value>,
    items: Vec<(Ident, Value)>,
    mentioned: Vec<Ident>,
    wanted: Option<Vec<Ident>>,
    before: &HashMap<Ident, usize>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let wanted = match wanted {
        None => mentioned,
        // An empty order is ignored.
        Some(wanted) if wanted.is_empty() || is_in_order(&mentioned, &wanted) => wanted,
        Some(_) => {
            let what = "the order in patch list doesn't match $setElementOrder list; name each element of the patch there";
            return Err(malformed(at, what));
        }
    };
    target.extend(arrange(items, &wanted, before).into_iter().map(|(_, value)| value));
    Ok(())
}

/// A parsed patch of a list of objects.
struct Changes<'p> {
    /// The objects to merge or add, with their indices in the patch.
    items: Vec<(Ident, &'p Map<String, Value>, usize)>,
    deleted: HashSet<Ident>,
    replace: bool,
}

impl<'p> Changes<'p> {
    fn read(patch: &'p [Value], key: &str, at: &Path<'_>) -> Result<Self, PatchError> {
        let mut changes =
            Self { items: Vec::with_capacity(patch.len()), deleted: HashSet::new(), replace: false };
        for (index, element) in patch.iter().enumerate() {
            let at = at.index(index);
            let Value::Object(fields) = element else {
                return Err(misfit(&at, "each element of this list must be an object"));
            };
            match Directive::of(fields, &at)? {
                Some(Directive::Replace) => changes.replace = true,
                Some(Directive::Delete) => {
                    changes.deleted.insert(ident_by(element, key, &at)?);
                }
                None | Some(Directive::Merge) => {
                    changes.items.push((ident_by(element, key, &at)?, fields, index))
                }
            }
        }
        Ok(changes)
    }
}

fn ident_by(element: &Value, key: &str, at: &Path<'_>) -> Result<Ident, PatchError> {
    let Value::Object(fields) = element else {
        return Err(misfit(at, "each element of this list must be an object"));
    };
    match fields.get(key) {
        None => Err(misfit(at, &format!("element does not contain declared merge key: {key}; add it"))),
        Some(value) => ident(value, at),
    }
}

fn idents_by(elements: &[Value], key: &str, at: &Path<'_>) -> Result<Vec<Ident>, PatchError> {
    elements.iter().enumerate().map(|(index, element)| ident_by(element, key, &at.index(index))).collect()
}

fn ident(value: &Value, at: &Path<'_>) -> Result<Ident, PatchError> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(misfit(at, "the key of an element must be a string, a number or a boolean"))
        }
    }
}

fn idents(elements: &[Value], at: &Path<'_>) -> Result<Vec<Ident>, PatchError> {
    elements.iter().enumerate().map(|(index, element)| ident(element, &at.index(index))).collect()
}

/// The identity of an element as JSON, so that `1` differs from `"1"`: its merge key, or the value of a scalar.
type Ident = String;

/// Sorts `items`. Items in `wanted` follow that order, others the order `before`. An item that is not in `wanted` comes
/// before the first item of `wanted` that it preceded.
fn arrange(
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
fn is_in_order(part: &[Ident], whole: &[Ident]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|ident| rest.any(|other| other == ident))
}

/// The index of the first occurrence of each identity.
fn places<'i>(idents: impl Iterator<Item = &'i Ident>) -> HashMap<Ident, usize> {
    let mut places = HashMap::new();
    for (place, ident) in idents.enumerate() {
        places.entry(ident.clone()).or_insert(place);
    }
    places
}

/// Removes all but the first occurrence of each identity.
fn without_repeats(items: Vec<(Ident, Value)>) -> Vec<(Ident, Value)> {
    let mut seen = HashSet::with_capacity(items.len());
    items.into_iter().filter(|(ident, _)| seen.insert(ident.clone())).collect()
}
