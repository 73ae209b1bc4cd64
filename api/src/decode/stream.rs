//! Splits a manifest into documents before parsing, so that an invalid document does not affect the others.

/// The text of a document and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// The text, including the `---` line.
    pub text: &'a str,
    /// Number of lines before this document.
    pub lines_before: u32,
}

/// Splits at each `---` and `...` line. Such a line is never inside of a YAML scalar or a JSON string. A `---` line
/// belongs to the document that it opens.
pub(super) fn documents(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let mut only_directives = true;
    let mut offset = 0;
    for (line_number, line) in text.split_inclusive('\n').enumerate() {
        let line_number = u32::try_from(line_number).unwrap_or(u32::MAX);
        let opens = is_marker(line, "---");
        if opens && !only_directives {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number);
        }
        only_directives = only_directives && !opens && is_prologue(line);
        offset += line.len();
        if is_marker(line, "...") {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number + 1);
            only_directives = true;
        }
    }
    if start < offset {
        chunks.push(Chunk { text: &text[start..], lines_before: start_line });
    }
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// True for lines that may precede the `---` line of their document.
fn is_prologue(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%'])
}
