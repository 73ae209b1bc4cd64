//! The command line: flags to options, verbs to requests.

mod args;
mod check;
mod client;
mod describe;
mod flags;
mod get;
mod logs;
mod pod;
mod print;
mod session;
mod terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;

use args::{Cli, RunFlags, Verb};
use client::Client;
use command::{Command, Failure, failed};
use print::{READER_GONE, ReaderGone};

/// This command.
const COMMAND: Command = Command { name: "kubelet", directory: "--root-dir" };
/// Where a kubelet keeps its state when nobody says otherwise.
const ROOT_DIR: &str = "/var/lib/kubelet";
/// What is said of `kubelet exec POD ls`.
const DASHES: &str = "exec wants the command after `--`: kubelet exec POD -- COMMAND";
/// How long file work under way at the end may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Threads that run tasks: the kubelet waits far more than it computes.
const THREADS: usize = 2;

/// Reads the arguments.
fn parse(arguments: Vec<OsString>) -> Result<Cli, Failure<Cli>> {
    let lacks_dashes = verb(&arguments).is_some_and(|verb| verb == "exec")
        && arguments.iter().all(|argument| argument != "--" && argument != "-h" && argument != "--help");
    match COMMAND.parse(arguments.into_iter()) {
        // Whatever else is wrong, it is so because flags of the command were taken for ours.
        Err(Failure::Mistakes(..)) if lacks_dashes => Err(Failure::Mistakes(vec![DASHES.to_owned()], None)),
        parsed => parsed,
    }
}

/// The first word that is neither a flag nor the directory.
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

/// Runs the command and says how it ended.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (cli, mistakes) = match parse(arguments) {
        Ok(cli) => (cli, Vec::new()),
        Err(Failure::Answered(answer)) => {
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        // Flags that exist may be wrong too: `run` tells of them together.
        Err(Failure::Mistakes(mistakes, Some(cli))) if matches!(cli.verb, Verb::Run(_)) => (*cli, mistakes),
        Err(Failure::Mistakes(mistakes, _)) => return COMMAND.misused(&mistakes),
    };
    let client = || Client::new(cli.root_dir.clone().unwrap_or_else(|| PathBuf::from(ROOT_DIR)));
    match cli.verb {
        Verb::Run(ref flags) => run(flags, cli.root_dir.clone(), mistakes),
        Verb::Check(ref arguments) => check::run(arguments),
        Verb::Get(ref get) => ask(get::run(&client(), get)),
        Verb::Describe(ref describe) => ask(describe::run(&client(), describe)),
        Verb::Logs(ref logs) => ask(logs::run(&client(), logs)),
        Verb::Exec(ref exec) => ask(session::exec(&client(), exec)),
        Verb::Attach(ref attach) => ask(session::attach(&client(), attach)),
        Verb::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kubelet", &mut script);
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
        return COMMAND.misused(&mistakes);
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
        let ended = runtime.block_on(crate::wiring::run(read.options));
        // A thread may hang on a file system that does not answer.
        runtime.shutdown_timeout(LAST_WORDS);
        ended
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs a verb that asks the running kubelet; the code is the command's own where there was one.
fn ask(verb: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    ended(runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let ended = runtime.block_on(verb);
        // A thread may wait for a key that nobody presses any more.
        runtime.shutdown_background();
        ended
    }))
}

/// The code of a verb; one whose reader has gone away has nobody to tell so.
fn ended(verb: anyhow::Result<ExitCode>) -> ExitCode {
    match verb {
        Err(error) if error.is::<ReaderGone>() => ExitCode::from(READER_GONE),
        ended => ended.unwrap_or_else(|error| failed(&error)),
    }
}

#[cfg(test)]
mod tests;
