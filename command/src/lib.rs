//! Code that both commands share: argument parsing, logging, usage errors, process metrics, socket path limits,
//! safe terminal output, file locks, changes of files and messages to systemd.

mod flags;
mod lock;
mod logging;
mod parse;
mod process;
mod service_manager;
mod socket;
mod stamp;
mod visible;

use std::io::Write as _;
use std::process::ExitCode;

pub use flags::{InvalidValue, Values, duration};
pub use lock::{LOCK_TIMEOUT, lock};
pub use logging::Logging;
pub use parse::Failure;
pub use process::Process;
pub use service_manager::ServiceManager;
pub use socket::check_socket_path;
pub use stamp::Stamp;
pub use visible::visible;

/// Exit code for invalid flags and files.
const USAGE_ERROR: u8 = 2;

/// A command, with the flag that all its subcommands share.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name of the command and of its crate, such as `kubelet`.
    pub name: &'static str,
    /// The flag that sets the data directory, such as `--root-dir`. It may precede a subcommand.
    pub directory: &'static str,
}

impl Command {
    /// Prints usage errors, one per line, and returns exit code 2.
    pub fn usage_errors(&self, mistakes: &[String]) -> ExitCode {
        for mistake in mistakes {
            print_line(format_args!("{}: {mistake}", self.name));
        }
        ExitCode::from(USAGE_ERROR)
    }
}

/// Prints the error of a subcommand with all its causes.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    print_line(format_args!("{error:#}"));
    ExitCode::FAILURE
}

/// Prints a line to standard error. It is not an error if standard error is closed.
fn print_line(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Splits the values of a list flag, which may be repeated and may contain commas.
pub fn commas(given: &[String]) -> Vec<String> {
    given.iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
