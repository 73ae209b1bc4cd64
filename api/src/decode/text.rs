//! Checks the size and the encoding of a manifest, and defines its syntax errors.

use super::MAX_MANIFEST_BYTES;
use crate::problem::Problem;

/// The message for a document that nests too deep.
pub(super) const TOO_DEEP: &str = "lists and maps nest too deeply";
/// The remedy for a document that nests too deep.
pub(super) const CHECK_NESTING: &str =
    "no manifest needs more than a dozen levels: check the brackets and indentation";

/// A syntax error. Line and column are 1-based within the document.
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

/// Returns the text of a manifest without a byte order mark.
pub(super) fn read(bytes: &[u8]) -> Result<&str, SyntaxError> {
    if bytes.len() > MAX_MANIFEST_BYTES {
        return Err(problem(
            1,
            1,
            &format!("the manifest is larger than {} MiB", MAX_MANIFEST_BYTES >> 20),
            "split it into several files",
        ));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(problem(1, 1, "the manifest is UTF-16", "save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(&bytes[..error.valid_up_to()]);
        problem(line, column, "the manifest is not UTF-8 from here on", "save it as UTF-8")
    })?;
    if let Some(offset) = text.find('\0') {
        let (line, column) = place(&bytes[..offset]);
        return Err(problem(
            line,
            column,
            "the manifest holds a NUL byte",
            "remove it; the file may be damaged, or not a text file",
        ));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Returns an error that concerns the whole manifest.
pub(super) fn problem(line: u32, column: u32, what: &str, remedy: &str) -> SyntaxError {
    SyntaxError { line, column, what: what.to_owned(), remedy: remedy.to_owned() }
}

/// The line and column after `before`.
fn place(before: &[u8]) -> (u32, u32) {
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let characters = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (u32::try_from(lines + 1).unwrap_or(u32::MAX), u32::try_from(characters + 1).unwrap_or(u32::MAX))
}
