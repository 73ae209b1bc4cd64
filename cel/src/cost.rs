//! Estimates the maximum cost of an expression. Stock API servers reject CRD rules with a high estimate.
//!
//! The constants are those of cel-go (`checker/cost.go`) and of the Kubernetes libraries. Where this model is less
//! exact, its estimate is lower, so that it accepts each rule that a stock server accepts. [`crate::Budget`] limits
//! the actual cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Call, Comprehension, ComprehensionKind, Expr, Node, Operator};
use crate::value::Value;

/// Limit for the size of a request to the API server in bytes, and so for each value in it.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The cost of reading a variable or field.
const READ: u64 = 1;
/// The cost of creating a list, a map or an object.
const LIST: u64 = 10;
const MAP: u64 = 30;
const OBJECT: u64 = 40;

/// The estimated maximum size of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeEstimate {
    /// A value of constant size.
    Scalar,
    /// A string or bytes, with the maximum size in bytes.
    Text(u64),
    /// A list, with the maximum number of elements.
    List(u64, Arc<SizeEstimate>),
    /// A map, with the maximum number of entries.
    Map(u64, Arc<SizeEstimate>),
    /// An object, with the size of each field.
    Object(Arc<BTreeMap<String, SizeEstimate>>),
    /// A value of unknown type and size.
    Any,
}

/// A cost. Sums stop at the maximum of the type.
type Cost = u64;

/// The variables with their sizes, the innermost last.
type Scope = Vec<(Arc<str>, SizeEstimate)>;

impl SizeEstimate {
    fn size(&self) -> u64 {
        match self {
            Self::Scalar | Self::Object(_) => 1,
            Self::Text(size) | Self::List(size, _) | Self::Map(size, _) => *size,
            Self::Any => MAX_REQUEST_BYTES,
        }
    }

    /// The size of a list element or map value.
    fn element(&self) -> Self {
        match self {
            Self::List(_, element) | Self::Map(_, element) => (**element).clone(),
            Self::Any => Self::Any,
            Self::Scalar | Self::Text(_) | Self::Object(_) => Self::Scalar,
        }
    }

    fn field(&self, name: &str) -> Self {
        match self {
            Self::Object(fields) => fields.get(name).cloned().unwrap_or(Self::Any),
            _ => self.element(),
        }
    }

    /// The larger of two sizes, for a value that may have either.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Text(one), Self::Text(two)) => Self::Text(one.max(two)),
            (Self::List(one, element), Self::List(two, other)) => {
                Self::List(one.max(two), either(&element, &other))
            }
            (Self::Map(one, value), Self::Map(two, other)) => Self::Map(one.max(two), either(&value, &other)),
            (Self::Scalar, known) | (known, Self::Scalar) => known,
            (one, two) if one == two => one,
            _ => Self::Any,
        }
    }
}

fn either(one: &SizeEstimate, two: &SizeEstimate) -> Arc<SizeEstimate> {
    Arc::new(one.clone().or(two.clone()))
}

/// The cost of reading a text: a tenth of a unit per byte.
fn reading(size: u64) -> Cost {
    size.div_ceil(10)
}

/// The cost of matching a text with a regular expression.
fn matching(text: u64, pattern: u64) -> Cost {
    reading(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4).max(1))
}

/// The maximum cost of an expression.
pub(crate) fn max_cost(root: &Node, variables: &[(&str, SizeEstimate)]) -> Cost {
    let mut scope = variables.iter().map(|(name, extent)| (Arc::from(*name), extent.clone())).collect();
    node_cost(root, &mut scope).0
}

/// The cost of a node, and the size of its value.
fn node_cost(node: &Node, scope: &mut Scope) -> (Cost, SizeEstimate) {
    match &node.expr {
        Expr::Literal(Value::String(text)) => (0, SizeEstimate::Text(text.len() as u64)),
        Expr::Literal(Value::Bytes(bytes)) => (0, SizeEstimate::Text(bytes.len() as u64)),
        Expr::Literal(_) => (0, SizeEstimate::Scalar),
        Expr::Name(name) => {
            let known = scope.iter().rev().find(|(known, _)| known == name);
            (READ, known.map_or(SizeEstimate::Scalar, |(_, extent)| extent.clone()))
        }
        Expr::Select { of: whole, field, .. } => {
            let (cost, extent) = node_cost(whole, scope);
            (cost.saturating_add(READ), extent.field(field))
        }
        Expr::Has { of: whole, .. } => (node_cost(whole, scope).0, SizeEstimate::Scalar),
        Expr::Index { of: whole, index, .. } => {
            let ((cost, extent), (more, _)) = (node_cost(whole, scope), node_cost(index, scope));
            let extent = match &index.expr {
                Expr::Literal(Value::String(name)) => extent.field(name),
                _ => extent.element(),
            };
            (sum([cost, more, READ]), extent)
        }
        Expr::List(elements) => {
            let (cost, element) = all(elements.iter().map(|(_, element)| element), scope);
            (cost.saturating_add(LIST), SizeEstimate::List(elements.len() as u64, Arc::new(element)))
        }
        Expr::Map(entries) => {
            let (keys, _) = all(entries.iter().map(|(_, key, _)| key), scope);
            let (values, value) = all(entries.iter().map(|(_, _, value)| value), scope);
            (sum([keys, values, MAP]), SizeEstimate::Map(entries.len() as u64, Arc::new(value)))
        }
        Expr::Object { fields, .. } => {
            let (cost, _) = all(fields.iter().map(|(_, _, value)| value), scope);
            (cost.saturating_add(OBJECT), SizeEstimate::Any)
        }
        Expr::All(parts) | Expr::Any(parts) => (all(parts.iter(), scope).0, SizeEstimate::Scalar),
        Expr::Not(part) | Expr::Negate(part) => {
            (node_cost(part, scope).0.saturating_add(1), SizeEstimate::Scalar)
        }
        Expr::If(parts) => {
            let (test, _) = node_cost(&parts.0, scope);
            let ((one, extent), (two, other)) = (node_cost(&parts.1, scope), node_cost(&parts.2, scope));
            (test.saturating_add(one.max(two)), extent.or(other))
        }
        Expr::Binary(operator, parts) => {
            let ((one, left), (two, right)) = (node_cost(&parts.0, scope), node_cost(&parts.1, scope));
            let (own, extent) = binary(*operator, &left, &right);
            (sum([one, two, own]), extent)
        }
        Expr::Call(call) => call_cost(call, scope),
        Expr::Comprehension(walk) => comprehension_cost(walk, scope),
        Expr::Bind { name, parts } | Expr::Optional { name, parts, .. } => {
            let (cost, extent) = node_cost(&parts.0, scope);
            let (body, extent) = within(&parts.1, [(name.clone(), extent)], scope);
            (sum([cost, body, 1]), extent)
        }
    }
}

/// The cost of several nodes, and the largest size among their values.
fn all<'a>(parts: impl Iterator<Item = &'a Node>, scope: &mut Scope) -> (Cost, SizeEstimate) {
    parts
        .map(|part| node_cost(part, scope))
        .fold((0, SizeEstimate::Scalar), |(cost, extent), (more, other)| {
            (cost.saturating_add(more), extent.or(other))
        })
}

fn within<const N: usize>(
    node: &Node,
    more: [(Arc<str>, SizeEstimate); N],
    scope: &mut Scope,
) -> (Cost, SizeEstimate) {
    let outside = scope.len();
    scope.extend(more);
    let found = node_cost(node, scope);
    scope.truncate(outside);
    found
}

fn sum(costs: impl IntoIterator<Item = Cost>) -> Cost {
    costs.into_iter().fold(0, Cost::saturating_add)
}

fn binary(operator: Operator, left: &SizeEstimate, right: &SizeEstimate) -> (Cost, SizeEstimate) {
    let smaller = left.size().min(right.size());
    match operator {
        Operator::Equal | Operator::NotEqual => (reading(smaller), SizeEstimate::Scalar),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            (reading(smaller).max(1), SizeEstimate::Scalar)
        }
        Operator::In => match right {
            SizeEstimate::Map(..) | SizeEstimate::Object(_) => (1, SizeEstimate::Scalar),
            list => (list.size(), SizeEstimate::Scalar),
        },
        Operator::Add => match (left, right) {
            (SizeEstimate::Text(one), SizeEstimate::Text(two)) => {
                let size = one.saturating_add(*two);
                (reading(size), SizeEstimate::Text(size))
            }
            (SizeEstimate::List(one, element), SizeEstimate::List(two, other)) => {
                (1, SizeEstimate::List(one.saturating_add(*two), either(element, other)))
            }
            _ => (1, left.clone().or(right.clone())),
        },
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            (1, SizeEstimate::Scalar)
        }
    }
}

fn call_cost(call: &Call, scope: &mut Scope) -> (Cost, SizeEstimate) {
    let arguments: Vec<(Cost, SizeEstimate)> =
        call.arguments.iter().map(|argument| node_cost(argument, scope)).collect();
    let extent = |at: usize| arguments.get(at).map_or(SizeEstimate::Scalar, |(_, extent)| extent.clone());
    let size = |at: usize| extent(at).size();
    let first = extent(0);
    let (own, returns) = match &*call.name {
        "startsWith" | "endsWith" => (reading(size(1)), SizeEstimate::Scalar),
        "contains" => (reading(size(0)).saturating_mul(reading(size(1)).max(1)), SizeEstimate::Scalar),
        "matches" => (matching(size(0), size(1)), SizeEstimate::Scalar),
        "find" => (matching(size(0), size(1)), first),
        "findAll" => (matching(size(0), size(1)), SizeEstimate::List(size(0), Arc::new(first))),
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "charAt" => (reading(size(0)), first),
        "replace" => {
            let size = size(0).saturating_mul(size(2).max(1));
            (reading(size), SizeEstimate::Text(size))
        }
        "split" => (reading(size(0)), SizeEstimate::List(size(0), Arc::new(first))),
        "join" => {
            let size = size(0).saturating_mul(first.element().size().saturating_add(size(1)));
            (reading(size), SizeEstimate::Text(size))
        }
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" | "sort" | "reverse" | "distinct"
        | "flatten" | "slice"
            if matches!(first, SizeEstimate::List(..) | SizeEstimate::Any) =>
        {
            let each = reading(first.element().size()).max(1);
            let returns = if matches!(&*call.name, "min" | "max") { first.element() } else { first.clone() };
            (first.size().saturating_mul(each), returns)
        }
        "indexOf" | "lastIndexOf" => {
            (reading(size(0)).saturating_mul(reading(size(1)).max(1)), SizeEstimate::Scalar)
        }
        "sets.contains" | "sets.intersects" | "sets.equivalent" => {
            (size(0).saturating_mul(size(1)).saturating_add(1), SizeEstimate::Scalar)
        }
        "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "quantity" | "isQuantity" | "semver"
        | "isSemver" => (reading(size(0)).max(1), SizeEstimate::Scalar),
        "or" | "orValue" => (1, first.or(extent(1))),
        "value"
        | "optional.of"
        | "optional.ofNonZeroValue"
        | "string"
        | "bytes"
        | "dyn"
        | "first"
        | "last" => (1, first),
        _ => (1, SizeEstimate::Scalar),
    };
    (sum(arguments.iter().map(|(cost, _)| *cost).chain([own])), returns)
}

/// The cost of a comprehension: the body is evaluated for each element.
fn comprehension_cost(walk: &Comprehension, scope: &mut Scope) -> (Cost, SizeEstimate) {
    let (cost, over) = node_cost(&walk.over, scope);
    let element = over.element();
    // As in stock servers, the sizes of keys and indices are not tracked.
    let (first, second) = match (&over, &walk.second) {
        (SizeEstimate::List(..) | SizeEstimate::Any, None) => (element.clone(), SizeEstimate::Scalar),
        _ => (SizeEstimate::Scalar, element.clone()),
    };
    let mut names = vec![(walk.first.clone(), first)];
    names.extend(walk.second.clone().map(|name| (name, second)));
    let outside = scope.len();
    scope.extend(names);
    let filter = walk.filter.as_ref().map_or(0, |filter| node_cost(filter, scope).0);
    let (body, made) = node_cost(&walk.body, scope);
    scope.truncate(outside);
    // The cost of the accumulator: initialization, loop step and loop condition.
    let (own, returns) = match walk.kind {
        ComprehensionKind::All => (3, SizeEstimate::Scalar),
        ComprehensionKind::Exists => (4, SizeEstimate::Scalar),
        ComprehensionKind::ExistsOne => (2, SizeEstimate::Scalar),
        ComprehensionKind::Map => (LIST + 2, SizeEstimate::List(over.size(), Arc::new(made))),
        ComprehensionKind::Filter => (LIST + 3, over.clone()),
        ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => {
            (MAP + 2, SizeEstimate::Map(over.size(), Arc::new(made)))
        }
    };
    let each = sum([own, filter, body]);
    (sum([cost, over.size().saturating_mul(each), 1]), returns)
}
