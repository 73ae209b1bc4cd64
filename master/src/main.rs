//! The `master` command.

fn main() -> std::process::ExitCode {
    master::cli::main()
}
