//! Lays an applied object over the live one. Nothing is removed here.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::parts::{self, Parts};
use super::set::Element;
use crate::path::Path;
use crate::shape::{Form, List, Shape};

/// Checks that the lists of an applied object can be merged.
///
/// # Errors
/// The first list that cannot: an element without its keys, or two with the same.
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
            let names = match parts::names(values, list, elements) {
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

/// The live value with the applied one laid over it.
pub(super) fn merge(live: &Value, applied: &Value, shape: Shape<'_>) -> Value {
    let (below, above) = (Parts::of(live, shape), Parts::of(applied, shape));
    match (&below, &above) {
        _ if below.is_empty() && above.is_empty() => applied.clone(),
        (Parts::Fields(live), Parts::Fields(applied)) => fields(live, applied, shape),
        (Parts::Elements(live, live_names, of), Parts::Elements(applied, names, _)) => {
            elements((live, live_names), (applied, names), *of)
        }
        (Parts::Fields(_) | Parts::Elements(..), Parts::Nothing) => live.clone(),
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

/// Merges lists. What is applied comes in the applied order, and what is only live stays behind what it followed.
fn elements(live: (&[Value], &[Element]), applied: (&[Value], &[Element]), of: Shape<'_>) -> Value {
    let mut places = HashMap::<&Element, Option<usize>>::with_capacity(live.1.len());
    for (place, name) in live.1.iter().enumerate() {
        // Nothing is merged into elements that cannot be told apart.
        places.entry(name).and_modify(|place| *place = None).or_insert(Some(place));
    }
    let is_applied: HashSet<&Element> = applied.1.iter().collect();
    let merged = |index: usize| {
        let applied = (&applied.0[index], &applied.1[index]);
        match places.get(applied.1).copied().flatten().and_then(|place| live.0.get(place)) {
            Some(live) => merge(live, applied.0, of),
            None => applied.0.clone(),
        }
    };
    // For each place in the applied list, the next element there that is live too.
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
            // It comes, or came, where the applied list has it.
            left += 1;
        } else {
            out.push(merged(right));
            right += 1;
        }
    }
    out.extend((right..applied.1.len()).map(merged));
    Value::Array(out)
}
