//! What an expression is made of, once it is read.

use std::sync::Arc;

use regex_lite::Regex;

use crate::function::Function;
use crate::value::Value;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The byte it is named by in errors.
    pub at: u32,
    /// How many parts stand in each other here.
    pub height: u16,
    pub expr: Expr,
}

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(Value),
    Name(Arc<str>),
    /// `of.field`, and `of.?field` when it is optional.
    Select {
        of: Box<Node>,
        field: Arc<str>,
        optional: bool,
    },
    /// `has(of.field)`.
    Has {
        of: Box<Node>,
        field: Arc<str>,
    },
    Index {
        of: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    /// Elements, those that are left out when they are absent marked.
    List(Vec<(bool, Node)>),
    Map(Vec<(bool, Node, Node)>),
    /// `Object.spec{replicas: 1}`.
    Object {
        name: Arc<str>,
        fields: Vec<(bool, Arc<str>, Node)>,
    },
    /// `a && b && c`.
    All(Vec<Node>),
    /// `a || b || c`.
    Any(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    If(Box<(Node, Node, Node)>),
    Binary(Operator, Box<(Node, Node)>),
    Call(Call),
    Loop(Box<Loop>),
    /// `cel.bind(name, value, body)`.
    Bind {
        name: Arc<str>,
        parts: Box<(Node, Node)>,
    },
    /// `of.optMap(name, body)`.
    Optional {
        name: Arc<str>,
        parts: Box<(Node, Node)>,
        /// The body is an optional itself.
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

/// A call of a function; of a method, the first argument is what it is called on.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub name: Arc<str>,
    pub is_method: bool,
    pub arguments: Vec<Node>,
    /// Which functions it may be, found by name and number of arguments when the expression is checked.
    pub candidates: Vec<&'static Function>,
    /// The pattern, when it is written out.
    pub regex: Option<Regex>,
}

/// A walk over a list or a map.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub kind: LoopKind,
    pub over: Node,
    /// The element of a list or the key of a map; where there are two names, the index and the element, the key and the value.
    pub first: Arc<str>,
    pub second: Option<Arc<str>>,
    pub filter: Option<Node>,
    pub body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
}

impl Operator {
    /// The name in errors.
    pub fn sign(self) -> &'static str {
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
    /// Does something to every part right below.
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
            Self::Loop(of) => {
                act(&of.over);
                of.filter.iter().for_each(&mut *act);
                act(&of.body);
            }
        }
    }
}
