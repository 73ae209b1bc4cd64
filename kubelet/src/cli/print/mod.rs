//! Output of the subcommands: standard streams, tables and YAML. A closed output pipe ends a command without a
//! message.

pub mod yaml;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

pub use command::visible;

/// The error for a closed output pipe: its reader has ended.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has closed the pipe")]
pub struct ReaderGone;

/// Exit code after a closed pipe: 128 + SIGPIPE, as a shell reports it.
pub const READER_GONE: u8 = 141;

/// Writes to standard output and flushes it.
///
/// # Errors
/// [`ReaderGone`] if the pipe is closed; otherwise an I/O error, such as a full disk.
pub fn out(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
        Ok(()) => Ok(()),
    }
}

/// Writes bytes to standard error. Errors are ignored.
pub fn err(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Writes a line to standard error without control sequences. Errors are ignored.
pub fn note(what: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(&what.to_string()));
}

/// Column widths. They only grow, so that later lines stay aligned with earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Creates columns with minimum widths, for output that is printed line by line.
    pub fn at_least(widths: Vec<usize>) -> Self {
        Self { widths }
    }

    /// Formats rows as lines.
    pub fn lines(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = cell.chars().count().max(*width);
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&self.widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 3 - cell.chars().count()));
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}
