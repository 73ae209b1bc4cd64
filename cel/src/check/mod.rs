//! The type checker: reports undeclared names, undefined fields and mismatched types. Values of type `dyn` are checked
//! at run time.

mod calls;
mod operators;

use std::sync::Arc;

use crate::ast::{Comprehension, ComprehensionKind, Expr, Node};
use crate::error::SourceError;
use crate::function::Function;
use crate::parse::dotted;
use crate::types::Type;
use crate::value::Value;

/// The names of types, which an expression can use as values.
const TYPES: [&str; 12] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
];

/// The declarations that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The variables with their types.
    pub variables: Vec<(Arc<str>, Type)>,
    /// Functions in addition to the standard library.
    pub libraries: Vec<&'static [Function]>,
    /// Types that an expression may construct (`Object{}`), by the first part of their names. The values are maps.
    pub constructs: &'static [&'static str],
}

impl Environment {
    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Self {
        self.variables.push((name.into(), of));
        self
    }
}

/// Checks an expression and returns its type. Resolves the overloads of calls, and replaces type names by values.
pub(crate) fn check(root: &mut Node, environment: &Environment) -> Result<Type, SourceError> {
    Checker { environment, scope: environment.variables.clone() }.node(root)
}

struct Checker<'e> {
    environment: &'e Environment,
    scope: Vec<(Arc<str>, Type)>,
}

impl Checker<'_> {
    fn find(&self, name: &str) -> Option<&Type> {
        self.scope.iter().rev().find(|(known, _)| **known == *name).map(|(_, of)| of)
    }

    fn node(&mut self, node: &mut Node) -> Result<Type, SourceError> {
        if let Some(name) = dotted(node) {
            let root = name.split('.').next().unwrap_or_default();
            if self.find(root).is_none() && TYPES.contains(&name.as_str()) {
                node.expr = Expr::Literal(Value::Type(name.into()));
                return Ok(Type::Type);
            }
        }
        let at = node.at;
        match &mut node.expr {
            Expr::Literal(value) => Ok(literal(value)),
            Expr::Name(name) => {
                let of = self.find(name).cloned();
                of.ok_or_else(|| undeclared(at, name))
            }
            Expr::Select { of, field, optional } => {
                let of = self.node(of)?;
                let found = self.field(at, &of, field)?;
                Ok(if *optional { as_optional(found) } else { found })
            }
            Expr::Has { of, field } => {
                let of = self.node(of)?;
                self.field(at, &of, field)?;
                Ok(Type::Bool)
            }
            Expr::Index { of, index, optional } => {
                let (of, index) = (self.node(of)?, self.node(index)?);
                let found = element(at, &of, &index)?;
                Ok(if *optional { as_optional(found) } else { found })
            }
            Expr::List(elements) => {
                let mut of = None;
                for (optional, element) in elements {
                    let found = self.node(element)?;
                    let found = if *optional { inner(found) } else { found };
                    of = Some(of.map_or(found.clone(), |of: Type| of.join(found)));
                }
                Ok(Type::list(of.unwrap_or(Type::Dyn)))
            }
            Expr::Map(entries) => self.map(entries),
            Expr::Object { name, fields } => {
                let root = name.split('.').next().unwrap_or_default();
                if !self.environment.constructs.contains(&root) {
                    return Err(undeclared(at, name));
                }
                fields.iter_mut().try_for_each(|(_, _, value)| self.node(value).map(drop))?;
                Ok(Type::Dyn)
            }
            Expr::All(parts) | Expr::Any(parts) => {
                parts.iter_mut().try_for_each(|part| self.truth(part))?;
                Ok(Type::Bool)
            }
            Expr::Not(of) => self.truth(of).map(|()| Type::Bool),
            Expr::Negate(of) => match self.node(of)? {
                found @ (Type::Int | Type::Double | Type::Dyn | Type::Duration) => Ok(found),
                other => Err(no_overload(at, "-_", &[other])),
            },
            Expr::If(parts) => {
                self.truth(&mut parts.0)?;
                let (then, otherwise) = (self.node(&mut parts.1)?, self.node(&mut parts.2)?);
                if !then.is_assignable(&otherwise) {
                    return Err(no_overload(at, "_?_:_", &[Type::Bool, then, otherwise]));
                }
                Ok(then.join(otherwise))
            }
            Expr::Binary(operator, parts) => {
                let (left, right) = (self.node(&mut parts.0)?, self.node(&mut parts.1)?);
                operators::check(at, *operator, left, right)
            }
            Expr::Call(_) => self.call(node),
            Expr::Comprehension(of) => self.walk(at, of),
            Expr::Bind { name, parts } => {
                let of = self.node(&mut parts.0)?;
                self.within([(name.clone(), of)], |checker| checker.node(&mut parts.1))
            }
            Expr::Optional { name, parts, is_flat } => {
                let of = inner(self.node(&mut parts.0)?);
                let found = self.within([(name.clone(), of)], |checker| checker.node(&mut parts.1))?;
                Ok(if *is_flat { found } else { Type::optional(found) })
            }
        }
    }

    /// Runs a check with additional variables in scope.
    fn within<T>(
        &mut self,
        names: impl IntoIterator<Item = (Arc<str>, Type)>,
        look: impl FnOnce(&mut Self) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let before = self.scope.len();
        self.scope.extend(names);
        let result = look(self);
        self.scope.truncate(before);
        result
    }

    fn map(&mut self, entries: &mut [(bool, Node, Node)]) -> Result<Type, SourceError> {
        let mut of: Option<(Type, Type)> = None;
        for (optional, key, value) in entries {
            let (key, value) = (self.node(key)?, self.node(value)?);
            let value = if *optional { inner(value) } else { value };
            of = Some(match of {
                None => (key, value),
                Some((keys, values)) => (keys.join(key), values.join(value)),
            });
        }
        let (key, value) = of.unwrap_or((Type::Dyn, Type::Dyn));
        Ok(Type::Map(Arc::new(key), Arc::new(value)))
    }

    /// Requires a boolean.
    fn truth(&mut self, node: &mut Node) -> Result<(), SourceError> {
        let at = node.at;
        match self.node(node)? {
            Type::Bool | Type::Dyn => Ok(()),
            other => Err(SourceError::at(at, format!("expected type 'bool' but found '{other}'"))),
        }
    }

    fn walk(&mut self, at: u32, of: &mut Comprehension) -> Result<Type, SourceError> {
        let (keys, values, elements) = match self.node(&mut of.over)? {
            Type::List(of) => (Type::Int, Type::clone(&of), Some(of)),
            Type::Map(key, value) => (Type::clone(&key), Type::clone(&value), None),
            Type::Dyn => (Type::Dyn, Type::Dyn, None),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(SourceError::at(at, why));
            }
        };
        let one = elements.as_deref().unwrap_or(&keys).clone();
        let names: Vec<(Arc<str>, Type)> = match &of.second {
            None => vec![(of.first.clone(), one.clone())],
            Some(second) => vec![(of.first.clone(), keys.clone()), (second.clone(), values)],
        };
        self.within(names, |checker| {
            of.filter.as_mut().map_or(Ok(()), |filter| checker.truth(filter))?;
            Ok(match of.kind {
                ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                    checker.truth(&mut of.body)?;
                    Type::Bool
                }
                ComprehensionKind::Filter => {
                    checker.truth(&mut of.body)?;
                    Type::list(one)
                }
                ComprehensionKind::Map => Type::list(checker.node(&mut of.body)?),
                ComprehensionKind::TransformMap => {
                    Type::Map(Arc::new(keys), Arc::new(checker.node(&mut of.body)?))
                }
                ComprehensionKind::TransformMapEntry => checker.node(&mut of.body)?,
            })
        })
    }

    fn field(&self, at: u32, of: &Type, field: &str) -> Result<Type, SourceError> {
        match of {
            Type::Dyn | Type::Opaque(_) => Ok(Type::Dyn),
            Type::Map(_, value) => Ok(Type::clone(value)),
            Type::Object(object) => {
                let found = object.fields.get(field).cloned();
                found.ok_or_else(|| SourceError::at(at, format!("undefined field '{field}'")))
            }
            Type::Optional(of) => self.field(at, of, field).map(as_optional),
            other => Err(SourceError::at(at, format!("type '{other}' does not support field selection"))),
        }
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        Value::Type(_) => Type::Type,
        _ => Type::Dyn,
    }
}

fn element(at: u32, of: &Type, index: &Type) -> Result<Type, SourceError> {
    match of {
        Type::Dyn => Ok(Type::Dyn),
        Type::List(of) if *index == Type::Dyn || index.is_number() => Ok(Type::clone(of)),
        Type::Map(key, value) if key.is_assignable(index) => Ok(Type::clone(value)),
        Type::Optional(of) => element(at, of, index).map(as_optional),
        other => Err(no_overload(at, "_[_]", &[other.clone(), index.clone()])),
    }
}

/// Wraps a type in an optional, unless it is one.
fn as_optional(of: Type) -> Type {
    if matches!(of, Type::Optional(_)) { of } else { Type::optional(of) }
}

fn inner(of: Type) -> Type {
    match of {
        Type::Optional(of) => Type::clone(&of),
        _ => Type::Dyn,
    }
}

fn undeclared(at: u32, name: &str) -> SourceError {
    SourceError::at(at, format!("undeclared reference to '{name}' (in container '')"))
}

fn no_overload(at: u32, name: &str, arguments: &[Type]) -> SourceError {
    let arguments: Vec<String> = arguments.iter().map(Type::to_string).collect();
    let arguments = arguments.join(", ");
    SourceError::at(at, format!("found no matching overload for '{name}' applied to '({arguments})'"))
}
