//! Compiled expressions.

use crate::ast::{Expr, Node};
use crate::budget::Budget;
use crate::check::{self, Environment};
use crate::cost::{self, SizeEstimate};
use crate::error::{CompileError, Error, SourceError};
use crate::parse::parse;
use crate::run::{self, Bindings};
use crate::types::Type;
use crate::value::Value;

/// Limit for the length of an expression in bytes.
pub const MAX_LENGTH: usize = 16 * 1024;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    root: Node,
    returns: Type,
}

impl Program {
    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// If the expression is invalid. The error is the first one, with its position.
    pub fn compile(source: &str, environment: &Environment) -> Result<Self, CompileError> {
        if source.len() > MAX_LENGTH {
            let message = format!("an expression must not be longer than {MAX_LENGTH} bytes");
            return Err(CompileError { message });
        }
        let compiled = || {
            let mut root = parse(source)?;
            let returns = check::check(&mut root, environment)?;
            Ok::<_, SourceError>(Self { root, returns })
        };
        compiled().map_err(|error| error.shown(source))
    }

    /// The result type.
    pub fn returns(&self) -> &Type {
        &self.returns
    }

    /// True if the expression uses the variable.
    pub fn names(&self, variable: &str) -> bool {
        fn names(node: &Node, variable: &str) -> bool {
            if let Expr::Name(name) = &node.expr {
                return **name == *variable;
            }
            let mut found = false;
            node.expr.each(&mut |part| found = found || names(part, variable));
            found
        }
        names(&self.root, variable)
    }

    /// The estimated maximum cost, given the sizes of the variables.
    pub fn max_cost(&self, variables: &[(&str, SizeEstimate)]) -> u64 {
        cost::max_cost(&self.root, variables)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// If the evaluation fails, for example for a missing field, or exceeds the budget.
    pub fn run(&self, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
        run::run(&self.root, bindings, budget)
    }

    /// Evaluates the expression with at most `most` of the shared budget.
    ///
    /// # Errors
    /// The same as [`Self::run`].
    pub fn run_within(&self, bindings: &Bindings, all: &mut Budget, most: u64) -> Result<Value, Error> {
        all.with_limit(most, |budget| self.run(bindings, budget))
    }
}
