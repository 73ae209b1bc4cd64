//! Compile errors and evaluation errors.

use std::fmt;

/// The error for an expression that does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The error with the source line and a marker below it.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

/// A compile error at a byte offset.
#[derive(Debug)]
pub(crate) struct SourceError {
    pub at: usize,
    pub why: String,
}

impl SourceError {
    pub fn syntax(at: usize, why: impl fmt::Display) -> Self {
        Self { at, why: format!("Syntax error: {why}") }
    }

    pub fn at(at: u32, why: impl Into<String>) -> Self {
        Self { at: at as usize, why: why.into() }
    }

    /// Formats the error with its source line, as cel-go does.
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

/// An evaluation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The cost budget is exhausted.
    OutOfBudget,
    /// No overload accepts values of these types.
    NoSuchOverload(String),
    /// Any other error, such as a missing key, an overflow or an invalid conversion.
    Failed(String),
}

impl Error {
    /// Creates an evaluation error with a message.
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
