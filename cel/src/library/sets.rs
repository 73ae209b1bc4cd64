//! The sets library: treats lists as sets.

use super::lists::has;
use crate::arguments;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function};
use crate::types::Type;
use crate::value::Value;

const TWO: &[Kind] = &[Kind::List, Kind::List];
const BOOL: Returns = Returns::Is(Type::Bool);

pub(super) static FUNCTIONS: &[Function] = &[
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
