//! The evaluator. Each node costs one unit of the budget.

mod access;
mod comprehension;

use std::sync::Arc;

use crate::ast::{Call, Expr, Node};
use crate::budget::Budget;
use crate::error::Error;
use crate::library;
use crate::operators;
use crate::value::{Key, Map, Value};

/// The values of the variables of an expression.
#[derive(Clone, Debug, Default)]
pub struct Bindings(Vec<(Arc<str>, Value)>);

impl Bindings {
    /// Adds the value of a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.push((name.into(), value));
        self
    }
}

/// Evaluates an expression with these variables.
pub(crate) fn run(root: &Node, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
    Evaluator { names: bindings.0.clone(), budget }.node(root)
}

/// Limit for nested values, which are traversed recursively. API objects nest less.
const MAX_NESTING: usize = 512;

struct Evaluator<'b> {
    names: Vec<(Arc<str>, Value)>,
    budget: &'b mut Budget,
}

impl Evaluator<'_> {
    fn node(&mut self, node: &Node) -> Result<Value, Error> {
        let value = self.value(node)?;
        if value.depth() > MAX_NESTING {
            return Err(Error::failed(format!("values nest deeper than {MAX_NESTING}")));
        }
        Ok(value)
    }

    fn value(&mut self, node: &Node) -> Result<Value, Error> {
        self.budget.charge(1)?;
        match &node.expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Name(name) => self.name(name),
            Expr::Select { of, field, optional } => {
                let of = self.node(of)?;
                access::select(&of, field, *optional)
            }
            Expr::Has { of, field } => {
                let of = self.node(of)?;
                access::has(&of, field).map(Value::Bool)
            }
            Expr::Index { of, index, optional } => {
                let (of, index) = (self.node(of)?, self.node(index)?);
                access::index(&of, &index, *optional)
            }
            Expr::List(elements) => self.list(elements),
            Expr::Map(entries) => self.map(entries),
            Expr::Object { fields, .. } => self.object(fields),
            Expr::All(parts) => self.logic(parts, false),
            Expr::Any(parts) => self.logic(parts, true),
            Expr::Not(of) => self.truth(of).map(|value| Value::Bool(!value)),
            Expr::Negate(of) => {
                let of = self.node(of)?;
                operators::negate(&of)
            }
            Expr::If(parts) => {
                let branch = if self.truth(&parts.0)? { &parts.1 } else { &parts.2 };
                self.node(branch)
            }
            Expr::Binary(operator, parts) => {
                let (left, right) = (self.node(&parts.0)?, self.node(&parts.1)?);
                operators::binary(*operator, &left, &right, self.budget)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(of) => self.comprehension(of),
            Expr::Bind { name, parts } => {
                let value = self.node(&parts.0)?;
                self.within(name, value, &parts.1)
            }
            Expr::Optional { name, parts, is_flat } => self.optional(name, &parts.0, &parts.1, *is_flat),
        }
    }

    fn name(&self, name: &Arc<str>) -> Result<Value, Error> {
        let found = self.names.iter().rev().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.clone())
            .ok_or_else(|| Error::failed(format!("no such attribute(s): {name}")))
    }

    /// Evaluates a node with an additional variable.
    fn within(&mut self, name: &Arc<str>, value: Value, body: &Node) -> Result<Value, Error> {
        self.names.push((name.clone(), value));
        let result = self.node(body);
        self.names.pop();
        result
    }

    fn truth(&mut self, node: &Node) -> Result<bool, Error> {
        match self.node(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Error::NoSuchOverload(String::new())),
        }
    }

    /// `&&` and `
    ///
    /// `: an operand that decides the result hides errors of the others.
    fn logic(&mut self, parts: &[Node], decides: bool) -> Result<Value, Error> {
        let mut wrong = None;
        for part in parts {
            match self.truth(part) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(Error::OutOfBudget) => return Err(Error::OutOfBudget),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        wrong.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn list(&mut self, elements: &[(bool, Node)]) -> Result<Value, Error> {
        let mut items = Vec::with_capacity(elements.len());
        for (optional, element) in elements {
            let value = self.node(element)?;
            items.extend(if *optional { present(value)? } else { Some(value) });
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &[(bool, Node, Node)]) -> Result<Value, Error> {
        let mut map = Map::default();
        for (optional, key, value) in entries {
            let (key, value) = (self.node(key)?, self.node(value)?);
            let Some(value) = (if *optional { present(value)? } else { Some(value) }) else { continue };
            let key = Key::of(&key)?;
            let shown = key.to_string();
            if !map.add(key, value) {
                return Err(Error::failed(format!("insert failed: key '{shown}' already exists")));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn object(&mut self, fields: &[(bool, Arc<str>, Node)]) -> Result<Value, Error> {
        let mut map = Map::default();
        for (optional, name, value) in fields {
            let value = self.node(value)?;
            if let Some(value) = if *optional { present(value)? } else { Some(value) } {
                map.add(Key::String(name.clone()), value);
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn optional(&mut self, name: &Arc<str>, of: &Node, body: &Node, is_flat: bool) -> Result<Value, Error> {
        match self.node(of)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => match self.within(name, Value::clone(&value), body)? {
                value @ Value::Optional(_) if is_flat => Ok(value),
                _ if is_flat => Err(Error::NoSuchOverload("optFlatMap".to_owned())),
                value => Ok(Value::Optional(Some(Arc::new(value)))),
            },
            _ => Err(Error::NoSuchOverload("optMap".to_owned())),
        }
    }

    fn call(&mut self, call: &Call) -> Result<Value, Error> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.node(argument)?);
        }
        if let Some(regex) = &call.regex {
            return library::search(&call.name, regex, &arguments, self.budget);
        }
        let fits = call
            .candidates
            .iter()
            .find(|function| function.takes.iter().zip(&arguments).all(|(kind, value)| kind.takes(value)));
        let Some(function) = fits else {
            let kinds: Vec<&str> = arguments.iter().map(Value::type_name).collect();
            return Err(Error::NoSuchOverload(format!("{}({})", call.name, kinds.join(", "))));
        };
        (function.run)(&arguments, self.budget)
    }
}

/// Returns the value in an optional, or `None` if it is empty.
fn present(value: Value) -> Result<Option<Value>, Error> {
    match value {
        Value::Optional(value) => Ok(value.map(|value| Value::clone(&value))),
        other => Err(Error::failed(format!(
            "cannot initialize optional entry from non-optional value of type {}",
            other.type_name()
        ))),
    }
}
