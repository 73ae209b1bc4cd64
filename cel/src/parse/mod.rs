//! A recursive-descent parser for expressions.

mod macros;
mod primary;

pub(crate) use self::primary::dotted;
use crate::ast::{Expr, Node, Operator};
use crate::error::SourceError;
use crate::lexer::{Token, tokens};

/// Limit for nested parentheses, brackets and calls. Each level takes a few hundred bytes of stack.
const MAX_DEPTH: usize = 64;
/// Limit for the height of the tree, which is traversed recursively. The tree of `a.b.c` has height three.
const MAX_HEIGHT: u16 = 128;

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<Node, SourceError> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0, depth: 0 };
    let node = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(node),
        other => Err(parser.unexpected(other)),
    }
}

struct Parser {
    tokens: Vec<(u32, Token)>,
    next: usize,
    depth: usize,
}

/// The token that follows the last one.
static END: (u32, Token) = (0, Token::End);

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens.get(self.next).unwrap_or(&END).1
    }

    fn at(&self) -> u32 {
        self.tokens.get(self.next).or(self.tokens.last()).unwrap_or(&END).0
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    /// Consumes the symbol if it is the next token.
    fn takes(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(next) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), SourceError> {
        if self.takes(sign) { Ok(()) } else { Err(self.wanted(&format!("'{sign}'"))) }
    }

    fn unexpected(&self, token: &Token) -> SourceError {
        let what = match token {
            Token::End => "<EOF>".to_owned(),
            Token::Name(name) => name.clone(),
            Token::Quoted(name) => format!("`{name}`"),
            Token::Int(value) => value.to_string(),
            Token::Uint(value) => format!("{value}u"),
            Token::Double(value) => value.to_string(),
            Token::Text(text) => format!("\"{}\"", text.escape_debug()),
            Token::Bytes(_) => "bytes".to_owned(),
            Token::Symbol(sign) => (*sign).to_owned(),
        };
        SourceError::syntax(self.at() as usize, format!("mismatched input '{what}'"))
    }

    fn wanted(&self, what: &str) -> SourceError {
        let mut error = self.unexpected(self.peek());
        error.why = format!("{} expecting {what}", error.why);
        error
    }

    /// Runs the parser for a nested part, within the depth limit.
    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if self.depth >= MAX_DEPTH {
            return Err(SourceError::syntax(self.at() as usize, format!("nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self) -> Result<Node, SourceError> {
        self.deeper(|parser| {
            let condition = parser.any()?;
            let at = parser.at();
            if !parser.takes("?") {
                return Ok(condition);
            }
            let then = parser.any()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            node(at, Expr::If(Box::new((condition, then, otherwise))))
        })
    }

    fn any(&mut self) -> Result<Node, SourceError> {
        let (at, first) = (self.at(), self.all()?);
        let mut parts = vec![first];
        while self.takes("||") {
            parts.push(self.all()?);
        }
        one_or(parts, at, Expr::Any)
    }

    fn all(&mut self) -> Result<Node, SourceError> {
        let (at, first) = (self.at(), self.relation()?);
        let mut parts = vec![first];
        while self.takes("&&") {
            parts.push(self.relation()?);
        }
        one_or(parts, at, Expr::All)
    }

    fn relation(&mut self) -> Result<Node, SourceError> {
        use Operator::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, NotEqual};
        let mut left = self.sum()?;
        loop {
            let operator = match self.peek() {
                Token::Name(name) if name == "in" => Some(In),
                Token::Symbol(sign) => [Equal, NotEqual, LessOrEqual, GreaterOrEqual, Less, Greater]
                    .into_iter()
                    .find(|operator| operator.symbol() == *sign),
                _ => None,
            };
            let Some(operator) = operator else { return Ok(left) };
            let at = self.at();
            self.next += 1;
            let right = self.sum()?;
            left = node(at, Expr::Binary(operator, Box::new((left, right))))?;
        }
    }

    fn sum(&mut self) -> Result<Node, SourceError> {
        self.chain(&[Operator::Add, Operator::Subtract], Self::product)
    }

    fn product(&mut self) -> Result<Node, SourceError> {
        self.chain(&[Operator::Multiply, Operator::Divide, Operator::Modulo], Self::unary)
    }

    fn chain(
        &mut self,
        operators: &[Operator],
        part: fn(&mut Self) -> Result<Node, SourceError>,
    ) -> Result<Node, SourceError> {
        let mut left = part(self)?;
        loop {
            let Token::Symbol(sign) = self.peek() else { return Ok(left) };
            let Some(operator) = operators.iter().find(|operator| operator.symbol() == *sign) else {
                return Ok(left);
            };
            let at = self.at();
            self.next += 1;
            let right = part(self)?;
            left = node(at, Expr::Binary(*operator, Box::new((left, right))))?;
        }
    }

    fn unary(&mut self) -> Result<Node, SourceError> {
        let at = self.at();
        if self.takes("!") {
            let of = self.deeper(Self::unary)?;
            return node(at, Expr::Not(Box::new(of)));
        }
        if matches!(self.peek(), Token::Symbol("-")) {
            if let Some(literal) = self.negative()? {
                return self.member(literal);
            }
            self.next += 1;
            let of = self.deeper(Self::unary)?;
            return node(at, Expr::Negate(Box::new(of)));
        }
        let primary = self.primary()?;
        self.member(primary)
    }
}

/// Creates a node with its height, within the limit.
fn node(at: u32, expr: Expr) -> Result<Node, SourceError> {
    let mut highest = 0;
    expr.each(&mut |part| highest = highest.max(part.height));
    if highest >= MAX_HEIGHT {
        return Err(SourceError::syntax(at as usize, format!("more than {MAX_HEIGHT} nested parts")));
    }
    Ok(Node { at, height: highest + 1, expr })
}

/// Returns the single part, or a node with all parts.
fn one_or(mut parts: Vec<Node>, at: u32, several: fn(Vec<Node>) -> Expr) -> Result<Node, SourceError> {
    match parts.pop() {
        Some(only) if parts.is_empty() => Ok(only),
        last => {
            parts.extend(last);
            node(at, several(parts))
        }
    }
}
