//! The abstract syntax tree of expressions.

use std::sync::Arc;

use regex_lite::Regex;

use crate::function::Function;
use crate::value::Value;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The byte offset for error messages.
    pub at: u32,
    /// The height of the tree at this node.
    pub height: u16,
    pub expr: Expr,
}

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(Value),
    Name(Arc<str>),
    /// Selects a field: `of.field`, or `of.?field` if `optional` is set.
    Select {
        of: Box<Node>,
        field: Arc<str>,
        optional: bool,
    },
    /// Tests for a field: `has(of.field)`.
    Has {
        of: Box<Node>,
        field: Arc<str>,
    },
    Index {
        of: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    /// A list. Each element is marked with true if it is optional, so that it is left out if it is absent.
    List(Vec<(bool, Node)>),
    Map(Vec<(bool, Node, Node)>),
    /// Constructs an object: `Object.spec{replicas: 1}`.
    Object {
        name: Arc<str>,
        fields: Vec<(bool, Arc<str>, Node)>,
    },
    /// `a && b && c`.
    All(Vec<Node>),
    /// `a
    ///
    /// b
    ///
    /// c`.
    Any(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    If(Box<(Node, Node, Node)>),
    Binary(Operator, Box<(Node, Node)>),
    Call(Call),
    Comprehension(Box<Comprehension>),
    /// Binds a variable: `cel.bind(name, value, body)`.
    Bind {
        name: Arc<str>,
        parts: Box<(Node, Node)>,
    },
    /// Maps the value of an optional: `of.optMap(name, body)`.
    Optional {
        name: Arc<str>,
        parts: Box<(Node, Node)>,
        /// True for `optFlatMap`, whose body is an optional itself.
        is_flat: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// A function call. The first argument of a member call is the receiver.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub name: Arc<str>,
    pub is_method: bool,
    pub arguments: Vec<Node>,
    /// The overloads that match the static types. The type checker sets them.
    pub candidates: Vec<&'static Function>,
    /// The regular expression, if it is a literal.
    pub regex: Option<Regex>,
}

/// A comprehension over a list or map.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub kind: ComprehensionKind,
    pub over: Node,
    /// The variable for the list element or map key. If there are two variables, it is for the index or map key.
    pub first: Arc<str>,
    pub second: Option<Arc<str>>,
    pub filter: Option<Node>,
    pub body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComprehensionKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
}

impl Operator {
    /// The symbol, for error messages.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Expr {
    /// Calls `act` for each direct child.
    pub fn each(&self, act: &mut dyn FnMut(&Node)) {
        match self {
            Self::Literal(_) | Self::Name(_) => {}
            Self::Select { of, .. } | Self::Has { of, .. } | Self::Not(of) | Self::Negate(of) => act(of),
            Self::Index { of, index, .. } => [of, index].into_iter().for_each(|part| act(part)),
            Self::List(elements) => elements.iter().for_each(|(_, part)| act(part)),
            Self::Map(entries) => entries.iter().for_each(|(_, key, value)| {
                act(key);
                act(value);
            }),
            Self::Object { fields, .. } => fields.iter().for_each(|(_, _, part)| act(part)),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(act),
            Self::If(parts) => [&parts.0, &parts.1, &parts.2].into_iter().for_each(act),
            Self::Binary(_, parts) | Self::Bind { parts, .. } | Self::Optional { parts, .. } => {
                act(&parts.0);
                act(&parts.1);
            }
            Self::Call(call) => call.arguments.iter().for_each(act),
            Self::Comprehension(of) => {
                act(&of.over);
                of.filter.iter().for_each(&mut *act);
                act(&of.body);
            }
        }
    }
}
