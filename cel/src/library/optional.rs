//! Values that may be absent: making them, asking for them, and what to take instead.

use std::sync::Arc;

use crate::error::Error;
use crate::function::{Function, Gives, Kind, function, method};
use crate::types::Type;
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("optional.of", &[Kind::Any], Gives::OptionalSame, |of, _| {
        Ok(Value::Optional(Some(Arc::new(of[0].clone()))))
    }),
    function("optional.none", &[], Gives::OptionalIs(Type::Dyn), |_, _| Ok(Value::Optional(None))),
    function("optional.ofNonZeroValue", &[Kind::Any], Gives::OptionalSame, |of, _| {
        Ok(Value::Optional((!of[0].is_zero()).then(|| Arc::new(of[0].clone()))))
    }),
    method("hasValue", &[Kind::Optional], Gives::Is(Type::Bool), |of, _| {
        Ok(Value::Bool(inner(of)?.is_some()))
    }),
    method("value", &[Kind::Optional], Gives::Inner, |of, _| {
        inner(of)?.ok_or_else(|| Error::failed("optional.none() dereference"))
    }),
    method("orValue", &[Kind::Optional, Kind::Any], Gives::Inner, |of, _| {
        Ok(inner(of)?.unwrap_or_else(|| of[1].clone()))
    }),
    method("or", &[Kind::Optional, Kind::Optional], Gives::Same, |of, _| {
        Ok(if inner(of)?.is_some() { of[0].clone() } else { of[1].clone() })
    }),
    method("first", &[Kind::List], Gives::OptionalInner, |of, _| end(of, |items| items.first())),
    method("last", &[Kind::List], Gives::OptionalInner, |of, _| end(of, |items| items.last())),
];

fn inner(of: &[Value]) -> Result<Option<Value>, Error> {
    match &of[0] {
        Value::Optional(value) => Ok(value.as_deref().cloned()),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn end(of: &[Value], pick: fn(&[Value]) -> Option<&Value>) -> Result<Value, Error> {
    let item = pick(&crate::arguments::list(of, 0)?.items);
    Ok(Value::Optional(item.cloned().map(Arc::new)))
}
