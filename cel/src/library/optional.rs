//! The optional library: values that may be absent.

use std::sync::Arc;

use crate::error::Error;
use crate::function::{Function, Kind, Returns, function, method};
use crate::types::Type;
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("optional.of", &[Kind::Any], Returns::OptionalSame, |of, _| {
        Ok(Value::Optional(Some(Arc::new(of[0].clone()))))
    }),
    function("optional.none", &[], Returns::OptionalIs(Type::Dyn), |_, _| Ok(Value::Optional(None))),
    function("optional.ofNonZeroValue", &[Kind::Any], Returns::OptionalSame, |of, _| {
        Ok(Value::Optional((!of[0].is_zero()).then(|| Arc::new(of[0].clone()))))
    }),
    method("hasValue", &[Kind::Optional], Returns::Is(Type::Bool), |of, _| {
        Ok(Value::Bool(inner(of)?.is_some()))
    }),
    method("value", &[Kind::Optional], Returns::Inner, |of, _| {
        inner(of)?.ok_or_else(|| Error::failed("optional.none() dereference"))
    }),
    method("orValue", &[Kind::Optional, Kind::Any], Returns::Inner, |of, _| {
        Ok(inner(of)?.unwrap_or_else(|| of[1].clone()))
    }),
    method("or", &[Kind::Optional, Kind::Optional], Returns::Same, |of, _| {
        Ok(if inner(of)?.is_some() { of[0].clone() } else { of[1].clone() })
    }),
    method("first", &[Kind::List], Returns::OptionalInner, |of, _| end(of, |items| items.first())),
    method("last", &[Kind::List], Returns::OptionalInner, |of, _| end(of, |items| items.last())),
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
