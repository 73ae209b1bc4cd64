//! Bytes to text: size, encoding, and characters no manifest may hold.

use super::MAX_MANIFEST_BYTES;
use super::syntax::SyntaxError;

/// The text of a manifest, without a byte order mark.
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
            "remove it; the file may be damaged or not be text at all",
        ));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A problem of the manifest as a whole.
pub(super) fn problem(line: u32, column: u32, what: &str, remedy: &str) -> SyntaxError {
    SyntaxError { line, column, what: what.to_owned(), remedy: remedy.to_owned() }
}

/// Line and column right after `before`.
fn place(before: &[u8]) -> (u32, u32) {
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let characters = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (u32::try_from(lines + 1).unwrap_or(u32::MAX), u32::try_from(characters + 1).unwrap_or(u32::MAX))
}
