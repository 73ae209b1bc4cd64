//! The `kubelet` command.

fn main() -> std::process::ExitCode {
    kubelet::cli::main()
}
