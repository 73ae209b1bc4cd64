//! Entry point: parses the command line and runs the subcommand.

mod approval;
mod args;
mod config;
mod flags;
mod pod_addresses;
mod storage;
mod values;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;
use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};

use crate::backup::SOCKET;
use crate::check::{self, Question, Target};
use crate::data_dir::DataDir;
use crate::options::DATA_DIR;
use crate::pki::{Names, files, rotate};
use args::{
    Backup, Check, CheckConnection, CheckFormat, CheckWhat, Cli, ClusterInfo, Controllers, Discovery,
    Kubeconfig, Restore, RotateCa, RunFlags, Scheduler, Verb,
};
use command::{Command, Failure, Logging, commas, failed};

/// Name and directory flag of this command.
const COMMAND: Command = Command { name: "master", directory: "--data-dir" };
/// Number of worker threads of an async runtime; one per core of a small control plane host.
const THREADS: usize = 2;
/// Maximum number of threads for blocking file I/O.
const FILE_THREADS: usize = 16;
/// How long blocking file operations may continue after the master has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The command with all its flags, for man pages and completion scripts.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let (cli, mistakes) = match COMMAND.parse::<Cli>(std::env::args_os().skip(1)) {
        Ok(cli) => (cli, Vec::new()),
        Err(Failure::HelpOrVersion(answer)) => {
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        // `run` reports unknown flags together with invalid values.
        Err(Failure::Mistakes(mistakes, Some(cli))) if matches!(cli.verb, Verb::Run(_)) => (*cli, mistakes),
        Err(Failure::Mistakes(mistakes, _)) => return COMMAND.usage_errors(&mistakes),
    };
    let data_dir = cli.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR));
    match cli.verb {
        Verb::Run(ref flags) => run(flags, cli.data_dir, mistakes),
        Verb::Controllers(ref of) => controllers(of),
        Verb::Scheduler(ref of) => scheduler(of),
        Verb::Kubeconfig(ref of) => print(secret(kubeconfig(&data_dir, of), of.output.as_deref())),
        Verb::JoinString => print(join_string(&data_dir)),
        Verb::ClusterInfo(ref of) => cluster_info(&data_dir, of),
        Verb::Discovery(ref of) => discovery(of),
        Verb::Check(ref of) => check(of, cli.data_dir),
        Verb::RotateCa(ref how) => print(rotate_ca(&data_dir, *how)),
        Verb::Backup(ref to) => print(backup(&data_dir, to)),
        Verb::Restore(ref from) => print(restore(&data_dir, from)),
    }
}

fn run(flags: &RunFlags, data_dir: Option<PathBuf>, mut mistakes: Vec<String>) -> ExitCode {
    let file = flags.config.as_deref().and_then(|path| {
        let unreadable = |error| mistakes.push(format!("--config: cannot read {}: {error}", path.display()));
        std::fs::read(path).map_err(unreadable).ok()
    });
    let read = flags::read(flags, data_dir, file.as_deref()).map_err(|found| mistakes.extend(found)).ok();
    let (Some(read), true) = (read, mistakes.is_empty()) else { return COMMAND.usage_errors(&mistakes) };
    read.logging.start(&COMMAND);
    match runtime("controllers") {
        Ok(computing) => {
            let code = until_done(crate::wiring::run(read.options, computing.handle().clone()));
            computing.shutdown_timeout(SHUTDOWN_TIMEOUT);
            code
        }
        Err(error) => failed(&error.into()),
    }
}

fn controllers(of: &Controllers) -> ExitCode {
    let (which, lifecycle) = match flags::of_controllers(of) {
        Ok(read) => read,
        Err(mistakes) => return COMMAND.usage_errors(&mistakes),
    };
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_controllers(&of.kubeconfig, which, lifecycle))
}

fn scheduler(of: &Scheduler) -> ExitCode {
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_scheduler(&of.kubeconfig, of.config.as_deref()))
}

/// Creates a runtime with threads of that name.
fn runtime(name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name(name)
        .worker_threads(THREADS)
        .max_blocking_threads(FILE_THREADS)
        .enable_all()
        .build()
}

fn until_done(task: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let ended = runtime("master").map_err(anyhow::Error::from).and_then(|runtime| {
        let ended = runtime.block_on(task);
        // A thread may hang on an unresponsive file system, such as that of the add-ons.
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn kubeconfig(data_dir: &Path, of: &Kubeconfig) -> anyhow::Result<String> {
    Ok(DataDir::at(data_dir).kubeconfig(&of.user, &of.group, Timestamp::now())?)
}

/// Writes a text with a private key to `output` atomically. Returns the text to print: empty if it was written.
fn secret(text: anyhow::Result<String>, output: Option<&Path>) -> anyhow::Result<String> {
    match (text, output) {
        (Ok(text), Some(file)) => {
            files::write(file, text.as_bytes(), files::SECRET)?;
            Ok(String::new())
        }
        (text, _) => text,
    }
}

fn join_string(data_dir: &Path) -> anyhow::Result<String> {
    Ok(DataDir::at(data_dir).join_string(Timestamp::now())? + "\n")
}

fn cluster_info(data_dir: &Path, of: &ClusterInfo) -> ExitCode {
    let (mut names, mut mistakes) = (Names::default(), Vec::new());
    for name in commas(&of.tls_san) {
        match values::server_name(&name) {
            Ok(name) => names.add(&name),
            Err(wanted) => mistakes.push(format!("--tls-san: \"{name}\" {wanted}")),
        }
    }
    if mistakes.is_empty() {
        let printed = DataDir::at(data_dir).cluster_info(&names, Timestamp::now());
        print(secret(printed.map_err(anyhow::Error::from), of.output.as_deref()))
    } else {
        COMMAND.usage_errors(&mistakes)
    }
}

fn discovery(of: &Discovery) -> ExitCode {
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_discovery(of.cluster_info.clone(), of.listen))
}

fn rotate_ca(data_dir: &Path, how: RotateCa) -> anyhow::Result<String> {
    let (directory, now) = (DataDir::at(data_dir), Timestamp::now());
    let pki = directory.pki();
    // A socket path that is too long would hide a running master, so it is checked first.
    command::check_socket_path(&data_dir.join(SOCKET), COMMAND.directory).map_err(anyhow::Error::msg)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    if how.retire && !how.force {
        rotate::complete(&pki)?;
        let late = runtime.block_on(check::shut_out(data_dir)).unwrap_or_else(|why| vec![why]);
        anyhow::ensure!(
            late.is_empty(),
            "the old root CA is not retired, because nodes may be locked out:\n{}\n`master rotate-ca --retire --force` retires it anyway",
            late.join("\n")
        );
    }
    let done = match how {
        RotateCa { retire: true, .. } if rotate::retire(&pki)? => {
            "the old root CA is retired: certificates that it signed are invalid".to_owned()
        }
        RotateCa { retire: true, .. } => {
            anyhow::bail!(
                "there is no root CA to retire: `master rotate-ca` creates a new one beside the current one"
            )
        }
        RotateCa { intermediate: true, .. } => {
            rotate::renew_intermediate(&pki, now)?;
            "a new intermediate CA signs certificates from now on; nothing else has changed".to_owned()
        }
        RotateCa { .. } => {
            rotate::begin(&pki, now)?;
            let join = directory.join_string(now)?;
            format!(
                "a new root CA signs certificates from now on, and the previous one is still trusted. Nodes join with\n{join}\nGive users new \
                 kubeconfigs (`master kubeconfig`), let nodes renew their certificates, then run `master rotate-ca --retire`"
            )
        }
    };
    let reloaded = match runtime.block_on(crate::backup::reload(data_dir))? {
        true => "The running master has reloaded it",
        false => "No master is running here: the next start loads it",
    };
    Ok(format!("{done}.\n{reloaded}; copy {} to every other master of this store.\n", pki.display()))
}

fn backup(data_dir: &Path, to: &Backup) -> anyhow::Result<String> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crate::backup::fetch(data_dir, &to.file))
}

fn restore(data_dir: &Path, from: &Restore) -> anyhow::Result<String> {
    crate::backup::restore(data_dir, &from.file, from.replace, Timestamp::now())
}

fn check(of: &Check, data_dir: Option<PathBuf>) -> ExitCode {
    // With --kubeconfig, the default data directory may belong to another master.
    let data_dir = data_dir.or_else(|| of.kubeconfig.is_none().then(|| PathBuf::from(DATA_DIR)));
    let target = Target { kubeconfig: of.kubeconfig.clone(), data_dir };
    if let Some(CheckWhat::Connection(connection)) = &of.what {
        return check_connection(&target, connection);
    }
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let report = runtime.block_on(check::run(&target));
    let text = match of.format {
        CheckFormat::Text => check::as_text(&report),
        CheckFormat::Json => format!("{:#}\n", check::as_json(&report)),
    };
    // A closed pipe is no error; the exit code has the result.
    let _ = print(Ok(text));
    if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_connection(target: &Target, of: &CheckConnection) -> ExitCode {
    let question = match Question::parse(&of.from, &of.to) {
        Ok(question) => question,
        Err(mistake) => return COMMAND.usage_errors(&[mistake]),
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(check::connection(target, &question)) {
        Ok(answer) => {
            let _ = print(Ok(answer.text));
            if answer.is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => failed(&anyhow::Error::msg(why)),
    }
}

fn print(text: anyhow::Result<String>) -> ExitCode {
    use io::Write as _;
    let written = text.and_then(|text| Ok(std::io::stdout().write_all(text.as_bytes())?));
    written.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
