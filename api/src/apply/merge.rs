//! Merges an applied object into the live one. The module `remove` handles removed fields.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::field_set::PathElement;
use super::typed::{self, Typed};
use crate::path::Path;
use crate::shape::{Form, List, Shape};

/// Checks that the lists of an applied object can be merged.
///
/// # Errors
/// If a list has an element without its keys, with duplicate keys, or of the wrong type. The error names the first
/// such list.
pub(super) fn check(applied: &Value, shape: Shape<'_>, at: &Path<'_>) -> Result<(), String> {
    let refuse = |what: &str| Err(format!(".{}: {what}", at.to_owned()));
    match (shape.form(), applied) {
        (Form::List { .. }, Value::Array(_)) | (_, Value::Null) => {}
        (Form::List { .. }, _) => return refuse("expected list"),
        (Form::Struct { .. } | Form::Map { .. }, Value::Object(_)) => {}
        (Form::Struct { .. } | Form::Map { .. }, _) => return refuse("expected map"),
        (Form::Unknown | Form::Scalar, _) => {}
    }
    match (applied, shape.form()) {
        (Value::Object(fields), _) => {
            fields.iter().try_for_each(|(name, value)| check(value, shape.at(name).shape, &at.field(name)))
        }
        (Value::Array(values), Form::List { elements, list: list @ (List::Set | List::Map(_)) }) => {
            let names = match typed::names(values, list, elements) {
                Ok(names) => names.unwrap_or_default(),
                Err(why) => return refuse(&why),
            };
            let mut seen = HashSet::with_capacity(names.len());
            if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                return refuse(&format!("duplicate entries for key {twice}"));
            }
            values.iter().enumerate().try_for_each(|(index, value)| check(value, elements, &at.index(index)))
        }
        _ => Ok(()),
    }
}

/// Returns the live value with the applied value merged into it.
pub(super) fn merge(live: &Value, applied: &Value, shape: Shape<'_>) -> Value {
    let (below, above) = (Typed::of(live, shape), Typed::of(applied, shape));
    match (&below, &above) {
        _ if below.is_empty() && above.is_empty() => applied.clone(),
        (Typed::Fields(live), Typed::Fields(applied)) => fields(live, applied, shape),
        (Typed::Elements(live, live_names, of), Typed::Elements(applied, names, _)) => {
            elements((live, live_names), (applied, names), *of)
        }
        (Typed::Fields(_) | Typed::Elements(..), Typed::Null) => live.clone(),
        _ => applied.clone(),
    }
}

fn fields(live: &Map<String, Value>, applied: &Map<String, Value>, shape: Shape<'_>) -> Value {
    let mut merged = Map::with_capacity(live.len().max(applied.len()));
    for (name, live) in live {
        let value = match applied.get(name) {
            Some(applied) => merge(live, applied, shape.at(name).shape),
            None => live.clone(),
        };
        merged.insert(name.clone(), value);
    }
    for (name, applied) in applied {
        if !live.contains_key(name) {
            merged.insert(name.clone(), applied.clone());
        }
    }
    Value::Object(merged)
}

/// Merges lists. Applied elements keep the order of the applied list; a live-only element stays behind the element that
/// it followed.
fn elements(live: (&[Value], &[PathElement]), applied: (&[Value], &[PathElement]), of: Shape<'_>) -> Value {
    let mut places = HashMap::<&PathElement, Option<usize>>::with_capacity(live.1.len());
    for (place, name) in live.1.iter().enumerate() {
        // Elements with duplicate keys are replaced, not merged.
        places.entry(name).and_modify(|place| *place = None).or_insert(Some(place));
    }
    let is_applied: HashSet<&PathElement> = applied.1.iter().collect();
    let merged = |index: usize| {
        let applied = (&applied.0[index], &applied.1[index]);
        match places.get(applied.1).copied().flatten().and_then(|place| live.0.get(place)) {
            Some(live) => merge(live, applied.0, of),
            None => applied.0.clone(),
        }
    };
    // For each position in the applied list: the next applied element that also exists in the live list.
    let mut next_shared = vec![None; applied.1.len() + 1];
    for (place, name) in applied.1.iter().enumerate().rev() {
        next_shared[place] = if places.contains_key(name) { Some(name) } else { next_shared[place + 1] };
    }

    let mut out = Vec::with_capacity(live.0.len() + applied.0.len());
    let (mut left, mut right) = (0, 0);
    while let Some(name) = live.1.get(left) {
        if !is_applied.contains(name) {
            out.push(live.0[left].clone());
            left += 1;
        } else if applied.1.get(right) == Some(name) {
            out.push(merged(right));
            left += 1;
            right += 1;
        } else if next_shared[right] != Some(name) {
            // This element is written at its position in the applied list.
            left += 1;
        } else {
            out.push(merged(right));
            right += 1;
        }
    }
    out.extend((right..applied.1.len()).map(merged));
    Value::Array(out)
}
