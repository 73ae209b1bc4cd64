//! What the commands of the project have in common: how arguments are read, the log is written, mistakes are told, what the
//! kernel counts of a process, how long it lets the path of a socket be, and locks.

mod duration;
mod lock;
mod logging;
mod parse;
mod process;
mod socket;
mod values;

use std::io::Write as _;
use std::process::ExitCode;

pub use duration::duration;
pub use lock::{ENDS_WITHIN, lock};
pub use logging::Logging;
pub use parse::Failure;
pub use process::Process;
pub use socket::socket_fits;
pub use values::{Values, Wanted};

/// Exit code for flags and files that cannot be used.
const MISUSED: u8 = 2;

/// A command by its name, with the one flag that all its verbs have.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What people type, and the crate whose log it is: `kubelet`.
    pub name: &'static str,
    /// The flag for its directory, which may stand before a verb: `--root-dir`.
    pub directory: &'static str,
}

impl Command {
    /// Tells mistakes, a line each, and that the command was misused.
    pub fn misused(&self, mistakes: &[String]) -> ExitCode {
        for mistake in mistakes {
            tell(format_args!("{}: {mistake}", self.name));
        }
        ExitCode::from(MISUSED)
    }
}

/// Tells why a verb failed, with all its causes.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    tell(format_args!("{error:#}"));
    ExitCode::FAILURE
}

/// A line on standard error; whoever closed it does not want to know.
fn tell(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The parts of a list that is given by one flag with commas, by several, or both.
pub fn commas(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
