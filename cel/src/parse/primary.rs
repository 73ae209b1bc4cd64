//! Parses primary expressions and the member accesses after them.

use std::sync::Arc;

use super::{Parser, macros, node};
use crate::ast::{Call, Expr, Node};
use crate::error::SourceError;
use crate::lexer::Token;
use crate::value::Value;

/// Words that cannot be identifiers.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

impl Parser {
    /// Parses a negative number literal, so that the smallest integer can be written. `None` if no number follows.
    pub(super) fn negative(&mut self) -> Result<Option<Node>, SourceError> {
        let at = self.at();
        let value = match self.tokens.get(self.next + 1).map(|(_, token)| token) {
            Some(Token::Int(value)) => {
                let value = 0_i64.checked_sub_unsigned(*value);
                Value::Int(value.ok_or_else(|| SourceError::syntax(at as usize, "invalid int literal"))?)
            }
            Some(Token::Double(value)) => Value::Double(-value),
            _ => return Ok(None),
        };
        self.next += 2;
        node(at, Expr::Literal(value)).map(Some)
    }

    pub(super) fn primary(&mut self) -> Result<Node, SourceError> {
        let at = self.at();
        let literal = |value| node(at, Expr::Literal(value));
        match self.advance() {
            Token::Int(value) => match i64::try_from(value) {
                Ok(value) => literal(Value::Int(value)),
                Err(_) => Err(SourceError::syntax(at as usize, "invalid int literal")),
            },
            Token::Uint(value) => literal(Value::Uint(value)),
            Token::Double(value) => literal(Value::Double(value)),
            Token::Text(text) => literal(Value::from(text)),
            Token::Bytes(bytes) => literal(Value::Bytes(bytes.into())),
            Token::Name(name) => match name.as_str() {
                "true" => literal(Value::Bool(true)),
                "false" => literal(Value::Bool(false)),
                "null" => literal(Value::Null),
                _ => self.name(at, name),
            },
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                let elements = self.until("]", |parser| {
                    let optional = parser.takes("?");
                    Ok((optional, parser.expression()?))
                })?;
                node(at, Expr::List(elements))
            }
            Token::Symbol("{") => {
                let entries = self.until("}", |parser| {
                    let optional = parser.takes("?");
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    Ok((optional, key, parser.expression()?))
                })?;
                node(at, Expr::Map(entries))
            }
            Token::Symbol(".") => match self.advance() {
                Token::Name(name) => self.name(at, name),
                other => Err(self.unexpected(&other)),
            },
            other => {
                self.next -= 1;
                Err(self.unexpected(&other))
            }
        }
    }

    fn name(&mut self, at: u32, name: String) -> Result<Node, SourceError> {
        if name == "in" || RESERVED.contains(&name.as_str()) {
            return Err(SourceError::syntax(at as usize, format!("reserved identifier: {name}")));
        }
        if !self.takes("(") {
            return node(at, Expr::Name(name.into()));
        }
        let arguments = self.until(")", Self::expression)?;
        if name == "has" {
            return macros::has(at, arguments);
        }
        call(at, name.into(), false, arguments)
    }

    /// Parses field selections, indexing and member calls after a primary expression.
    pub(super) fn member(&mut self, mut of: Node) -> Result<Node, SourceError> {
        loop {
            let at = self.at();
            if self.takes(".") {
                let optional = self.takes("?");
                let (field, is_quoted) = match self.advance() {
                    Token::Name(name) if !["in", "true", "false", "null"].contains(&name.as_str()) => {
                        (name, false)
                    }
                    Token::Quoted(name) => (name, true),
                    _ => {
                        self.next -= 1;
                        return Err(self.wanted("IDENTIFIER"));
                    }
                };
                if !optional && !is_quoted && self.takes("(") {
                    let arguments = self.until(")", Self::expression)?;
                    of = method(at, of, field, arguments)?;
                } else {
                    of = node(at, Expr::Select { of: Box::new(of), field: field.into(), optional })?;
                }
            } else if self.takes("[") {
                let optional = self.takes("?");
                let index = self.expression()?;
                self.expect("]")?;
                of = node(at, Expr::Index { of: Box::new(of), index: Box::new(index), optional })?;
            } else if matches!(self.peek(), Token::Symbol("{")) {
                let Some(name) = dotted(&of) else { return Ok(of) };
                self.next += 1;
                let fields = self.until("}", |parser| {
                    let optional = parser.takes("?");
                    let field: Arc<str> = match parser.advance() {
                        Token::Name(name) | Token::Quoted(name) => name.into(),
                        other => return Err(parser.unexpected(&other)),
                    };
                    parser.expect(":")?;
                    Ok((optional, field, parser.expression()?))
                })?;
                of = node(of.at, Expr::Object { name: name.into(), fields })?;
            } else {
                return Ok(of);
            }
        }
    }

    /// Parses comma-separated elements up to the closing symbol. A trailing comma is allowed.
    fn until<T>(
        &mut self,
        close: &str,
        mut read: impl FnMut(&mut Self) -> Result<T, SourceError>,
    ) -> Result<Vec<T>, SourceError> {
        let mut found = Vec::new();
        while !self.takes(close) {
            found.push(read(self)?);
            if !self.takes(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(found)
    }
}

fn call(at: u32, name: Arc<str>, is_method: bool, arguments: Vec<Node>) -> Result<Node, SourceError> {
    node(at, Expr::Call(Call { name, is_method, arguments, candidates: Vec::new(), regex: None }))
}

/// Creates a macro or member call. The type checker resolves namespaced functions such as `math.least(1, 2)`.
fn method(at: u32, of: Node, name: String, mut arguments: Vec<Node>) -> Result<Node, SourceError> {
    if name == "bind" && matches!(&of.expr, Expr::Name(room) if &**room == "cel") {
        return macros::bind(at, arguments);
    }
    if macros::is_macro(&name, arguments.len()) {
        return macros::expand(at, of, &name, arguments);
    }
    arguments.insert(0, of);
    call(at, name.into(), true, arguments)
}

/// The dotted name of nested selections, such as `Object.spec`.
pub(crate) fn dotted(node: &Node) -> Option<String> {
    match &node.expr {
        Expr::Name(name) => Some(name.to_string()),
        Expr::Select { of, field, optional: false } => Some(format!("{}.{field}", dotted(of)?)),
        _ => None,
    }
}
