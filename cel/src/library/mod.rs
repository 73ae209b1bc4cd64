//! The functions of the language and its usual extensions, a file a family.

mod convert;
mod format;
mod lists;
mod math;
mod optional;
mod patterns;
mod sets;
mod text;
mod time;

pub use self::convert::duration;
pub(crate) use self::patterns::{regex, search};
use crate::error::Fault;
use crate::function::Function;
use crate::syntax::{Call, Expr, Node};
use crate::value::Value;

/// Every family.
pub(crate) fn all() -> &'static [&'static [Function]] {
    static ALL: [&[Function]; 9] = [
        convert::FUNCTIONS,
        text::FUNCTIONS,
        patterns::FUNCTIONS,
        format::FUNCTIONS,
        lists::FUNCTIONS,
        sets::FUNCTIONS,
        math::FUNCTIONS,
        time::FUNCTIONS,
        optional::FUNCTIONS,
    ];
    &ALL
}

/// Refuses what a call can never do, as far as its arguments are written out.
pub(crate) fn check(at: u32, call: &Call) -> Result<(), Fault> {
    let text = |node: &Node| match &node.expr {
        Expr::Literal(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let last = call.arguments.last().and_then(text);
    match (&*call.name, call.arguments.len(), last) {
        (name, 2, Some(zone)) if time::is_calendar(name) => {
            time::zone(&zone).map(drop).map_err(|error| Fault::at(at, error.to_string()))
        }
        ("timestamp" | "duration", 1, Some(text)) => {
            let made = if &*call.name == "duration" {
                convert::duration(&text).map(drop)
            } else {
                convert::moment(&text).map(drop)
            };
            made.map_err(|error| Fault::at(at, error.to_string()))
        }
        _ => Ok(()),
    }
}
