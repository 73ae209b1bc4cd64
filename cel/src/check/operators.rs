//! Type checks of operators.

use super::no_overload;
use crate::ast::Operator;
use crate::error::SourceError;
use crate::types::Type;

pub(super) fn check(at: u32, operator: Operator, left: Type, right: Type) -> Result<Type, SourceError> {
    use Operator::{
        Add, Divide, Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, Modulo, Multiply, NotEqual,
        Subtract,
    };
    let found = match operator {
        Equal | NotEqual => left.is_assignable(&right).then_some(Type::Bool),
        Less | LessOrEqual | Greater | GreaterOrEqual => is_ordered(&left, &right).then_some(Type::Bool),
        In => is_in(&left, &right).then_some(Type::Bool),
        Add => sum(&left, &right),
        Subtract => difference(&left, &right),
        Multiply | Divide => same(&left, &right, &[Type::Int, Type::Uint, Type::Double]),
        Modulo => same(&left, &right, &[Type::Int, Type::Uint]),
    };
    let name = if operator == In { "@in".to_owned() } else { format!("_{}_", operator.symbol()) };
    found.ok_or_else(|| no_overload(at, &name, &[left, right]))
}

fn is_ordered(left: &Type, right: &Type) -> bool {
    let has_order = |of: &Type| {
        of.is_number()
            || matches!(
                of,
                Type::Dyn | Type::Bool | Type::String | Type::Bytes | Type::Duration | Type::Timestamp
            )
    };
    has_order(left) && has_order(right) && left.is_assignable(right)
}

fn is_in(left: &Type, right: &Type) -> bool {
    match right {
        Type::Dyn => true,
        Type::List(of) | Type::Map(of, _) => left.is_assignable(of),
        _ => false,
    }
}

/// The common type of both operands, if it is one of `known`. `dyn` matches any type.
fn same(left: &Type, right: &Type, known: &[Type]) -> Option<Type> {
    let may = |of: &Type| *of == Type::Dyn || known.contains(of);
    let is_same = left == right || *left == Type::Dyn || *right == Type::Dyn;
    (may(left) && may(right) && is_same).then(|| left.clone().join(right.clone()))
}

fn sum(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::List(one), Type::List(two)) => Some(Type::list(Type::clone(one).join(Type::clone(two)))),
        (Type::List(_), Type::Dyn) | (Type::Dyn, Type::List(_)) => Some(Type::Dyn),
        (Type::Timestamp, Type::Duration | Type::Dyn) | (Type::Duration | Type::Dyn, Type::Timestamp) => {
            Some(Type::Timestamp)
        }
        (Type::Duration, Type::Dyn) | (Type::Dyn, Type::Duration) => Some(Type::Dyn),
        _ => same(
            left,
            right,
            &[Type::Int, Type::Uint, Type::Double, Type::String, Type::Bytes, Type::Duration],
        ),
    }
}

fn difference(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Timestamp, Type::Timestamp) => Some(Type::Duration),
        (Type::Timestamp, Type::Duration) => Some(Type::Timestamp),
        (Type::Timestamp | Type::Dyn, Type::Timestamp | Type::Dyn | Type::Duration)
        | (Type::Duration, Type::Dyn) => Some(Type::Dyn),
        (Type::Timestamp, _) | (_, Type::Timestamp) => None,
        _ => same(left, right, &[Type::Int, Type::Uint, Type::Double, Type::Duration]),
    }
}
