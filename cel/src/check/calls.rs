//! Resolves the overloads of a call.

use regex_lite::Regex;

use super::{Checker, no_overload, undeclared};
use crate::ast::{Call, Expr, Node};
use crate::error::SourceError;
use crate::function::Function;
use crate::library;
use crate::parse::dotted;
use crate::types::Type;
use crate::value::Value;

/// Functions whose second argument is a regular expression.
const PATTERNS: [&str; 3] = ["matches", "find", "findAll"];

impl Checker<'_> {
    pub(super) fn call(&mut self, node: &mut Node) -> Result<Type, SourceError> {
        let at = node.at;
        let Expr::Call(call) = &mut node.expr else { return Ok(Type::Dyn) };
        self.qualify(call);
        let named: Vec<&'static Function> =
            self.functions().filter(|function| *function.name == *call.name).collect();
        if !named.iter().any(|function| function.is_method == call.is_method) {
            return Err(undeclared(at, &call.name));
        }
        let mut types = Vec::with_capacity(call.arguments.len());
        for argument in &mut call.arguments {
            types.push(self.node(argument)?);
        }
        call.candidates = named
            .into_iter()
            .filter(|function| function.is_method == call.is_method && fits(function, &types))
            .collect();
        if call.candidates.is_empty() {
            return Err(mismatched(at, call, &types));
        }
        call.regex = pattern(call)?;
        library::check(at, call)?;
        let mut returns = call.candidates.iter().map(|function| function.returns.of(&types));
        let first = returns.next().unwrap_or(Type::Dyn);
        Ok(returns.fold(first, Type::join))
    }

    fn functions(&self) -> impl Iterator<Item = &'static Function> {
        let own = self.environment.libraries.iter().flat_map(|library| library.iter());
        // Libraries come first, because they know their own types better.
        own.chain(library::all().iter().flat_map(|library| library.iter()))
    }

    /// Resolves `math.least(1)` as a call of a function with a namespace, if there is no variable `math`.
    fn qualify(&self, call: &mut Call) {
        if !call.is_method {
            return;
        }
        let Some(room) = call.arguments.first().and_then(dotted) else { return };
        if self.find(room.split('.').next().unwrap_or_default()).is_some() {
            return;
        }
        let name = format!("{room}.{}", call.name);
        if self.functions().any(|function| !function.is_method && function.name == name) {
            call.name = name.into();
            call.is_method = false;
            call.arguments.remove(0);
        }
    }
}

fn fits(function: &Function, types: &[Type]) -> bool {
    function.takes.len() == types.len()
        && function.takes.iter().zip(types).all(|(kind, of)| kind.is_assignable(of))
}

fn mismatched(at: u32, call: &Call, types: &[Type]) -> SourceError {
    match types {
        [on, rest @ ..] if call.is_method => {
            let rest: Vec<String> = rest.iter().map(Type::to_string).collect();
            let (name, rest) = (&call.name, rest.join(", "));
            SourceError::at(at, format!("found no matching overload for '{name}' applied to '{on}.({rest})'"))
        }
        _ => no_overload(at, &call.name, types),
    }
}

/// Compiles a literal regular expression, so that an invalid one is a compile error.
fn pattern(call: &Call) -> Result<Option<Regex>, SourceError> {
    if !PATTERNS.contains(&&*call.name) {
        return Ok(None);
    }
    let Some(Node { at, expr: Expr::Literal(Value::String(text)), .. }) = call.arguments.get(1) else {
        return Ok(None);
    };
    library::regex(text).map(Some).map_err(|why| SourceError::at(*at, why.to_string()))
}
