//! The standard library and the usual extensions; one file per library.

mod convert;
mod format;
mod lists;
mod math;
mod optional;
mod regex;
mod strings;
mod time;

pub use self::convert::duration;
pub(crate) use self::regex::{regex, search};
use crate::ast::{Call, Expr, Node};
use crate::error::SourceError;
use crate::function::Function;
use crate::value::Value;

/// All libraries.
pub(crate) fn all() -> &'static [&'static [Function]] {
    static ALL: [&[Function]; 9] = [
        convert::FUNCTIONS,
        strings::FUNCTIONS,
        regex::FUNCTIONS,
        format::FUNCTIONS,
        lists::FUNCTIONS,
        lists::SETS,
        math::FUNCTIONS,
        time::FUNCTIONS,
        optional::FUNCTIONS,
    ];
    &ALL
}

/// Rejects calls that always fail because of a literal argument.
pub(crate) fn check(at: u32, call: &Call) -> Result<(), SourceError> {
    let text = |node: &Node| match &node.expr {
        Expr::Literal(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let last = call.arguments.last().and_then(text);
    match (&*call.name, call.arguments.len(), last) {
        (name, 2, Some(zone)) if time::is_calendar(name) => {
            time::zone(&zone).map(drop).map_err(|error| SourceError::at(at, error.to_string()))
        }
        ("timestamp" | "duration", 1, Some(text)) => {
            let made = if &*call.name == "duration" {
                convert::duration(&text).map(drop)
            } else {
                convert::moment(&text).map(drop)
            };
            made.map_err(|error| SourceError::at(at, error.to_string()))
        }
        _ => Ok(()),
    }
}
