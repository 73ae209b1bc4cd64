//! The command line of `kubelet`: parses arguments and runs the subcommand.

mod args;
mod check;
mod client;
mod cp;
mod credentials;
mod describe;
mod flags;
mod get;
mod import;
mod logs;
mod pod;
mod port_forward;
mod print;
mod session;
mod top;
mod wait;
mod write;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;
use client::Client;

use args::{Cli, RunFlags, Verb};
use command::{Command, Failure, failed};
use print::{READER_GONE, ReaderGone};

/// Name and directory flag of this command, for error messages.
const COMMAND: Command = Command { name: "kubelet", directory: "--root-dir" };
/// Default root directory.
const ROOT_DIR: &str = "/var/lib/kubelet";
/// The error for a command such as `kubelet exec POD ls`, which lacks the `--`.
const DASHES: &str = "exec needs the command after `--`: kubelet exec POD -- COMMAND";
/// How long blocking file operations may continue after the kubelet has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of worker threads of the async runtime. The kubelet mostly waits for I/O.
const THREADS: usize = 2;

fn parse(arguments: Vec<OsString>) -> Result<Cli, Failure<Cli>> {
    let lacks_dashes = verb(&arguments).is_some_and(|verb| verb == "exec")
        && arguments.iter().all(|argument| argument != "--" && argument != "-h" && argument != "--help");
    match COMMAND.parse_with(arguments.into_iter(), flags::stock::instead) {
        // Without `--`, clap reports flags of the container's command as mistakes; the missing `--` is the actual cause.
        Err(Failure::Mistakes(..)) if lacks_dashes => Err(Failure::Mistakes(vec![DASHES.to_owned()], None)),
        parsed => parsed,
    }
}

/// The first argument that is neither a flag nor the value of `--root-dir`.
fn verb(arguments: &[OsString]) -> Option<&OsString> {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == COMMAND.directory {
            rest.next();
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            return Some(argument);
        }
    }
    None
}

/// The command with all its flags, for man pages and completion scripts.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (cli, mistakes) = match parse(arguments) {
        Ok(cli) => (cli, Vec::new()),
        Err(Failure::HelpOrVersion(answer)) => {
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        // `run` reports these mistakes together with invalid flag values.
        Err(Failure::Mistakes(mistakes, Some(cli))) if matches!(cli.verb, Verb::Run(_)) => (*cli, mistakes),
        Err(Failure::Mistakes(mistakes, _)) => return COMMAND.usage_errors(&mistakes),
    };
    let root_dir = || cli.root_dir.clone().unwrap_or_else(|| PathBuf::from(ROOT_DIR));
    let client = || Client::new(root_dir());
    match cli.verb {
        Verb::Run(ref flags) => run(flags, cli.root_dir.clone(), mistakes),
        Verb::Check(ref arguments) => check::run(arguments),
        Verb::Import(ref arguments) => import::run(arguments),
        Verb::Get(ref get) => run_client(get::run(&client(), get)),
        Verb::Describe(ref describe) => run_client(describe::run(&client(), describe)),
        Verb::Apply(ref apply) => run_client(write::apply(&client(), apply)),
        Verb::Delete(ref delete) => run_client(write::delete(&client(), delete)),
        Verb::Logs(ref logs) => run_client(logs::run(&client(), logs)),
        Verb::Exec(ref exec) => run_client(session::exec(&client(), exec)),
        Verb::Attach(ref attach) => run_client(session::attach(&client(), attach)),
        Verb::Cp(ref cp) => run_client(cp::run(&client(), cp)),
        Verb::PortForward(ref forward) => run_client(port_forward::run(&client(), forward)),
        Verb::Top(ref top) => run_client(top::run(&client(), top)),
        Verb::Wait(ref wait) => run_client(wait::run(&client(), wait)),
        Verb::Ui(ref arguments) => run_client(credentials::ui(&client(), &root_dir(), arguments)),
        Verb::Kubeconfig(ref arguments) => {
            run_client(credentials::kubeconfig(&client(), &root_dir(), arguments))
        }
        Verb::MetricsCertificate(ref arguments) => {
            ended(credentials::metrics_certificate(&root_dir(), arguments))
        }
        Verb::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "kubelet", &mut script);
            ended(print::out(&script).map(|()| ExitCode::SUCCESS))
        }
    }
}

fn run(flags: &RunFlags, root_dir: Option<PathBuf>, mut mistakes: Vec<String>) -> ExitCode {
    let logging = flags::logging(flags).map_err(|found| mistakes.extend(found)).ok();
    let file = flags.config.as_deref().and_then(|path| {
        let unreadable = |error| mistakes.push(format!("--config: cannot read {}: {error}", path.display()));
        std::fs::read(path).map_err(unreadable).ok()
    });
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let read = flags::read(flags, root_dir, &host_name, file.as_deref());
    let read = read.map_err(|found| mistakes.extend(found)).ok();
    let (Some(logging), Some(read), true) = (logging, read, mistakes.is_empty()) else {
        return COMMAND.usage_errors(&mistakes);
    };
    logging.start(&COMMAND);
    for warning in &read.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(crate::disk::THREADS)
        .enable_all()
        .build();
    match runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let ended = runtime.block_on(crate::startup::run(read.options));
        // A thread may hang on an unresponsive file system.
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs a subcommand that is a client of the running kubelet. `exec` returns the exit code of the container's
/// command.
fn run_client(verb: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    ended(runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let ended = runtime.block_on(verb);
        // A thread may be blocked reading the terminal.
        runtime.shutdown_background();
        ended
    }))
}

/// The exit code of a subcommand. A closed output pipe causes no error message.
fn ended(verb: anyhow::Result<ExitCode>) -> ExitCode {
    match verb {
        Err(error) if error.is::<ReaderGone>() => ExitCode::from(READER_GONE),
        ended => ended.unwrap_or_else(|error| failed(&error)),
    }
}

#[cfg(test)]
mod tests;
