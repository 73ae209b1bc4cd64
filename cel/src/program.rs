//! An expression that has been read and checked, ready to run.

use std::sync::Arc;

use crate::budget::Budget;
use crate::check;
use crate::error::{CompileError, Error, Fault};
use crate::function::Function;
use crate::parse::parse;
use crate::run;
use crate::syntax::{Expr, Node};
use crate::types::Type;
use crate::value::Value;

/// Bytes of the longest expression: several times what people write.
pub const MAX_LENGTH: usize = 16 * 1024;

/// What an expression may name.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Variables and what is known of them.
    pub variables: Vec<(Arc<str>, Type)>,
    /// Functions beyond those of the language.
    pub libraries: Vec<&'static [Function]>,
    /// Types that may be constructed (`Object{}`), by the beginning of their names; what comes out are maps.
    pub constructs: &'static [&'static str],
}

impl Environment {
    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Self {
        self.variables.push((name.into(), of));
        self
    }
}

/// The values of variables.
#[derive(Clone, Debug, Default)]
pub struct Bindings(pub(crate) Vec<(Arc<str>, Value)>);

impl Bindings {
    /// The same with one more value.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.push((name.into(), value));
        self
    }
}

/// An expression that may be run.
#[derive(Clone, Debug)]
pub struct Program {
    root: Node,
    gives: Type,
}

impl Program {
    /// Reads and checks an expression.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn compile(source: &str, environment: &Environment) -> Result<Self, CompileError> {
        if source.len() > MAX_LENGTH {
            let message = format!("an expression may be no longer than {MAX_LENGTH} bytes");
            return Err(CompileError { message });
        }
        let compiled = || {
            let mut root = parse(source)?;
            let gives = check::check(&mut root, environment)?;
            Ok::<_, Fault>(Self { root, gives })
        };
        compiled().map_err(|fault| fault.shown(source))
    }

    /// What it gives, as far as that is known.
    pub fn gives(&self) -> &Type {
        &self.gives
    }

    /// True when a variable stands in it.
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

    /// Runs it.
    ///
    /// # Errors
    /// What goes wrong, such as a field that is not there, or that it takes too long.
    pub fn run(&self, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
        run::run(&self.root, bindings, budget)
    }

    /// Runs it within what is left for all, and at most so many steps of that.
    ///
    /// # Errors
    /// As of [`Self::run`].
    pub fn run_within(&self, bindings: &Bindings, all: &mut Budget, most: u64) -> Result<Value, Error> {
        all.lend(most, |budget| self.run(bindings, budget))
    }
}
