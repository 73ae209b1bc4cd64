//! Standard output and standard error: a reader that has had enough, like `head`, ends a verb quietly.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Nobody reads standard output any more.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
pub struct ReaderGone;

/// How a verb ends then: as a shell sees a program that SIGPIPE ended, 128 and 13.
pub const READER_GONE: u8 = 141;

/// Writes to standard output, at once.
///
/// # Errors
/// [`ReaderGone`], or the disk is full.
pub fn out(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
        Ok(()) => Ok(()),
    }
}

/// Writes to standard error as it is; whoever closed it does not want to know.
pub fn err(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Says a line on standard error; whoever closed it does not want to know.
pub fn say(what: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{what}");
}
