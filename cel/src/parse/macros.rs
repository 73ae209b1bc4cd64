//! Expands macros such as `has()` and `all()`.

use std::sync::Arc;

use super::node;
use crate::ast::{Comprehension, ComprehensionKind, Expr, Node};
use crate::error::SourceError;

/// True for the name of a member macro with this number of arguments.
pub(super) fn is_macro(name: &str, arguments: usize) -> bool {
    match name {
        "all" | "exists" | "exists_one" | "existsOne" => matches!(arguments, 2 | 3),
        "map" | "transformList" | "transformMap" | "transformMapEntry" => matches!(arguments, 2..=4),
        "filter" | "optMap" | "optFlatMap" => arguments == 2,
        _ => false,
    }
}

/// Expands `has(a.b)`.
pub(super) fn has(at: u32, arguments: Vec<Node>) -> Result<Node, SourceError> {
    match <[Node; 1]>::try_from(arguments) {
        Ok([Node { expr: Expr::Select { of, field, optional: false }, .. }]) => {
            node(at, Expr::Has { of, field })
        }
        _ => Err(SourceError::at(at, "invalid argument to has() macro")),
    }
}

/// Expands `cel.bind(name, value, body)`.
pub(super) fn bind(at: u32, arguments: Vec<Node>) -> Result<Node, SourceError> {
    let [name, value, body] = <[Node; 3]>::try_from(arguments)
        .map_err(|_| SourceError::at(at, "cel.bind() takes a name, a value and an expression"))?;
    node(at, Expr::Bind { name: simple(&name)?, parts: Box::new((value, body)) })
}

/// Expands a member macro.
pub(super) fn expand(at: u32, over: Node, name: &str, arguments: Vec<Node>) -> Result<Node, SourceError> {
    use ComprehensionKind::{All, Exists, ExistsOne, Filter, Map, TransformMap, TransformMapEntry};
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().ok_or_else(|| SourceError::at(at, "a macro has too few arguments"));
    if matches!(name, "optMap" | "optFlatMap") {
        let (name_of, is_flat) = (simple(&next()?)?, name == "optFlatMap");
        let parts = Box::new((over, next()?));
        return node(at, Expr::Optional { name: name_of, parts, is_flat });
    }
    let (kind, has_two, has_filter) = match name {
        "all" => (All, count == 3, false),
        "exists" => (Exists, count == 3, false),
        "exists_one" | "existsOne" => (ExistsOne, count == 3, false),
        "filter" => (Filter, false, false),
        "map" if count <= 3 => (Map, false, count == 3),
        "transformList" if count >= 3 => (Map, true, count == 4),
        "transformMap" if count >= 3 => (TransformMap, true, count == 4),
        "transformMapEntry" if count >= 3 => (TransformMapEntry, true, count == 4),
        _ => return Err(SourceError::at(at, format!("{name}() does not take {count} arguments"))),
    };
    let first = simple(&next()?)?;
    let second = if has_two { Some(simple(&next()?)?) } else { None };
    if second.as_ref() == Some(&first) {
        return Err(SourceError::at(at, "the two variables of a macro have the same name"));
    }
    let filter = if has_filter { Some(next()?) } else { None };
    let body = next()?;
    node(at, Expr::Comprehension(Box::new(Comprehension { kind, over, first, second, filter, body })))
}

fn simple(node: &Node) -> Result<Arc<str>, SourceError> {
    match &node.expr {
        Expr::Name(name) => Ok(name.clone()),
        _ => Err(SourceError::at(node.at, "argument must be a simple name")),
    }
}
