//! The command line: flags to options, verbs to requests.

/// Runs the command and says how it ended.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
