//! What is wrong with an expression, and what goes wrong while it runs.

use std::fmt;

/// An expression that is refused before it ever runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// What is wrong, and where: the line with a mark below it.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

/// What is wrong at which byte.
#[derive(Debug)]
pub(crate) struct Fault {
    pub at: usize,
    pub why: String,
}

impl Fault {
    pub fn syntax(at: usize, why: impl fmt::Display) -> Self {
        Self { at, why: format!("Syntax error: {why}") }
    }

    pub fn at(at: u32, why: impl Into<String>) -> Self {
        Self { at: at as usize, why: why.into() }
    }

    /// The fault with its line, as users of other implementations know it.
    pub fn shown(&self, source: &str) -> CompileError {
        let before = source.get(..self.at).unwrap_or(source);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = source.split('\n').nth(line).unwrap_or_default();
        let mark = format!("{}^", ".".repeat(column));
        let place = format!("<input>:{}:{}", line + 1, column + 1);
        CompileError { message: format!("ERROR: {place}: {}\n | {text}\n | {mark}", self.why) }
    }
}

/// What goes wrong while an expression runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It would take longer than it may.
    OutOfBudget,
    /// No function or operator takes values of these types.
    NoSuchOverload(String),
    /// Anything else: a key that is not there, an overflow, a text that is no number.
    Failed(String),
}

impl Error {
    /// A failure in words.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::Failed(format!("no such key: {key}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBudget => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::NoSuchOverload(what) if what.is_empty() => f.write_str("no such overload"),
            Self::NoSuchOverload(what) => write!(f, "no such overload: {what}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
