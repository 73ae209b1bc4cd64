//! The list library (sorting, sums, extremes, search, transformations) and the set library.

use std::cmp::Ordering;

use crate::ast::Operator;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function, method};
use crate::types::Type;
use crate::value::Value;
use crate::{arguments, operators};

const LIST: &[Kind] = &[Kind::List];
const INT: Returns = Returns::Is(Type::Int);

pub(super) static FUNCTIONS: &[Function] = &[
    method("isSorted", LIST, Returns::Is(Type::Bool), |of, budget| {
        for pair in arguments::list(of, 0)?.items.windows(2) {
            if pair[0].order(&pair[1], budget)?.is_none_or(Ordering::is_gt) {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    }),
    method("sum", LIST, Returns::Inner, |of, budget| {
        let mut items = arguments::list(of, 0)?.items.iter();
        let Some(first) = items.next() else { return Ok(Value::Int(0)) };
        items.try_fold(first.clone(), |sum, item| {
            budget.charge(1)?;
            operators::binary(Operator::Add, &sum, item, budget)
        })
    }),
    method("min", LIST, Returns::Inner, |of, budget| extreme(of, "min", Ordering::is_lt, budget)),
    method("max", LIST, Returns::Inner, |of, budget| extreme(of, "max", Ordering::is_gt, budget)),
    method("indexOf", &[Kind::List, Kind::Any], INT, |of, budget| {
        let items = arguments::list(of, 0)?.items.iter().enumerate();
        place(items, &of[1], budget)
    }),
    method("lastIndexOf", &[Kind::List, Kind::Any], INT, |of, budget| {
        let items = arguments::list(of, 0)?.items.iter().enumerate().rev();
        place(items, &of[1], budget)
    }),
    method("reverse", LIST, Returns::Same, |of, budget| {
        let items = &arguments::list(of, 0)?.items;
        budget.charge(items.len())?;
        Ok(Value::list(items.iter().rev().cloned().collect()))
    }),
    method("distinct", LIST, Returns::Same, |of, budget| {
        let mut seen: Vec<Value> = Vec::new();
        for item in &arguments::list(of, 0)?.items {
            if !has(&seen, item, budget)? {
                seen.push(item.clone());
            }
        }
        Ok(Value::list(seen))
    }),
    method("flatten", LIST, Returns::InnerInner, |of, budget| {
        let mut flat = Vec::new();
        for item in &arguments::list(of, 0)?.items {
            match item {
                Value::List(inner) => {
                    budget.charge(inner.items.len())?;
                    flat.extend(inner.items.iter().cloned());
                }
                other => {
                    budget.charge(1)?;
                    flat.push(other.clone());
                }
            }
        }
        Ok(Value::list(flat))
    }),
    method("slice", &[Kind::List, Kind::Int, Kind::Int], Returns::Same, |of, budget| {
        let (start, end) = (arguments::int(of, 1)?, arguments::int(of, 2)?);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let part = range.and_then(|(start, end)| arguments::list(of, 0).ok()?.items.get(start..end));
        let wrong = || Error::failed(format!("cannot slice({start}, {end}): index out of range"));
        let part = part.ok_or_else(wrong)?;
        budget.charge(part.len())?;
        Ok(Value::list(part.to_vec()))
    }),
    method("sort", LIST, Returns::Same, sort),
    function("lists.range", &[Kind::Int], Returns::ListOf(Type::Int), |of, budget| {
        let count = arguments::int(of, 0)?;
        budget.charge(usize::try_from(count).unwrap_or(0))?;
        Ok(Value::list((0..count).map(Value::Int).collect()))
    }),
];

/// True if the list contains an element equal to `item`.
pub(super) fn has(items: &[Value], item: &Value, budget: &mut Budget) -> Result<bool, Error> {
    for other in items {
        if other.equals(item, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn place<'a>(
    items: impl Iterator<Item = (usize, &'a Value)>,
    item: &Value,
    budget: &mut Budget,
) -> Result<Value, Error> {
    for (at, other) in items {
        if other.equals(item, budget)? {
            return Ok(Value::from(at));
        }
    }
    Ok(Value::Int(-1))
}

fn extreme(of: &[Value], name: &str, is: fn(Ordering) -> bool, budget: &mut Budget) -> Result<Value, Error> {
    let mut items = arguments::list(of, 0)?.items.iter();
    let first = items.next().ok_or_else(|| Error::failed(format!("{name} called on empty list")))?;
    items
        .try_fold(first, |best, item| {
            let is_better = item.order(best, budget)?.is_some_and(is);
            Ok(if is_better { item } else { best })
        })
        .cloned()
}

/// Sorts a list by merging. It stops at the first comparison that fails or exceeds the budget.
fn sort(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let mut runs: Vec<Vec<Value>> =
        arguments::list(of, 0)?.items.iter().map(|item| vec![item.clone()]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(one) = pairs.next() {
            merged.push(match pairs.next() {
                Some(two) => merge(one, two, budget)?,
                None => one,
            });
        }
        runs = merged;
    }
    Ok(Value::list(runs.pop().unwrap_or_default()))
}

fn merge(one: Vec<Value>, two: Vec<Value>, budget: &mut Budget) -> Result<Vec<Value>, Error> {
    let mut merged = Vec::with_capacity(one.len() + two.len());
    let (mut one, mut two) = (one.into_iter().peekable(), two.into_iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), two.peek()) {
        let is_behind = a.order(b, budget)?.is_some_and(Ordering::is_gt);
        merged.extend(if is_behind { two.next() } else { one.next() });
    }
    merged.extend(one.chain(two));
    Ok(merged)
}

const TWO: &[Kind] = &[Kind::List, Kind::List];
const BOOL: Returns = Returns::Is(Type::Bool);

pub(super) static SETS: &[Function] = &[
    function("sets.contains", TWO, BOOL, |of, budget| contains(of, 0, 1, budget).map(Value::Bool)),
    function("sets.equivalent", TWO, BOOL, |of, budget| {
        Ok(Value::Bool(contains(of, 0, 1, budget)? && contains(of, 1, 0, budget)?))
    }),
    function("sets.intersects", TWO, BOOL, |of, budget| {
        let all = &arguments::list(of, 0)?.items;
        for item in &arguments::list(of, 1)?.items {
            // Charged for each element, because comparing with an empty list is free.
            budget.charge(1)?;
            if has(all, item, budget)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
];

fn contains(of: &[Value], all: usize, some: usize, budget: &mut Budget) -> Result<bool, Error> {
    let all = &arguments::list(of, all)?.items;
    for item in &arguments::list(of, some)?.items {
        if !has(all, item, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
