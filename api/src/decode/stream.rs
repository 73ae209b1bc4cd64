//! Cuts a text into documents before any of them is parsed, so that one broken document cannot take its neighbours along.

/// A document's text and where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// The text, its `---` line included.
    pub text: &'a str,
    /// Lines of the source before this text.
    pub lines_before: u32,
}

/// Cuts at every `---` and `...` line. YAML forbids both at the start of a line inside any scalar, and JSON has no
/// line break inside a string, so the cut is exact for both. A `---` stays with the document it opens.
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

/// Lines that may stand before the `---` of the document they belong to.
fn is_prologue(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%'])
}
