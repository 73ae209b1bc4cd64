//! A text that is not YAML or JSON, and where it stops being so.

use crate::problem::Problem;

/// What is said of a hundred brackets in each other.
pub(super) const TOO_DEEP: &str = "lists and maps nest too deeply";
/// And what is to be done.
pub(super) const CHECK_NESTING: &str =
    "no manifest needs more than a dozen levels: check the brackets and indentation";

/// Line and column are 1-based within the document's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub line: u32,
    pub column: u32,
    pub what: String,
    pub remedy: String,
}

impl SyntaxError {
    pub(super) fn problem(self, lines_before: u32) -> Problem {
        Problem {
            line: self.line.saturating_add(lines_before),
            column: self.column,
            path: String::new(),
            what: self.what,
            remedy: self.remedy,
            object: None,
        }
    }
}
