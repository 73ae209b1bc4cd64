//! Regular expressions: `matches`, `find` and `findAll`.

use regex_lite::{Regex, RegexBuilder};

use crate::arguments;
use crate::budget::Budget;
use crate::error::Error;
use crate::function::{Function, Kind, Returns, function, method};
use crate::types::Type;
use crate::value::Value;

/// Limit for the size of a compiled regular expression in bytes.
const MAX_SIZE: usize = 1 << 20;

pub(super) static FUNCTIONS: &[Function] = &[
    function("matches", &[Kind::Text, Kind::Text], Returns::Is(Type::Bool), |of, budget| {
        run("matches", of, budget)
    }),
    method("matches", &[Kind::Text, Kind::Text], Returns::Is(Type::Bool), |of, budget| {
        run("matches", of, budget)
    }),
    method("find", &[Kind::Text, Kind::Text], Returns::Is(Type::String), |of, budget| {
        run("find", of, budget)
    }),
    method("findAll", &[Kind::Text, Kind::Text], Returns::ListOf(Type::String), |of, budget| {
        run("findAll", of, budget)
    }),
    method("findAll", &[Kind::Text, Kind::Text, Kind::Int], Returns::ListOf(Type::String), |of, budget| {
        run("findAll", of, budget)
    }),
];

/// Compiles a regular expression.
pub(crate) fn regex(pattern: &str) -> Result<Regex, Error> {
    let made = RegexBuilder::new(pattern).size_limit(MAX_SIZE).build();
    made.map_err(|error| Error::failed(format!("error parsing regexp `{pattern}`: {error}")))
}

fn run(name: &str, of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let pattern = arguments::text(of, 1)?;
    budget.charge(weight(pattern))?;
    search(name, &regex(pattern)?, of, budget)
}

/// Evaluates a function with a compiled regular expression.
pub(crate) fn search(name: &str, regex: &Regex, of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let text = arguments::text(of, 0)?;
    budget.charge(weight(regex.as_str()).saturating_mul(text.len() / 10 + 1))?;
    match name {
        "find" => Ok(Value::from(regex.find(text).map_or("", |found| found.as_str()))),
        "findAll" => {
            let most = if of.len() == 3 { arguments::int(of, 2)? } else { -1 };
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let mut found = Vec::new();
            for part in regex.find_iter(text).take(most) {
                // Each match has a constant cost in addition.
                budget.charge(weight(regex.as_str()))?;
                found.push(Value::from(part.as_str()));
            }
            Ok(Value::list(found))
        }
        _ => Ok(Value::Bool(regex.is_match(text))),
    }
}

/// The cost of a regular expression per ten bytes of text: about its size with repetitions expanded.
fn weight(pattern: &str) -> usize {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let (least, most) = rest.split_once('}')?.0.split_once(',').map_or((rest, ""), |both| both);
        let number = |text: &str| {
            text.chars()
                .map_while(|c| c.to_digit(10))
                .fold(0_usize, |sum, digit| sum.saturating_mul(10).saturating_add(digit as usize))
        };
        Some(number(least).max(number(most)).max(1))
    });
    // Nested repetitions multiply.
    let is_nested = ["){", "}{", "?{", "+{", "*{"].iter().any(|twice| pattern.contains(twice));
    let times = if is_nested { counts.fold(1, usize::saturating_mul) } else { counts.max().unwrap_or(1) };
    (pattern.len().saturating_mul(times) / 4).saturating_add(1)
}
