//! The command line: flags to options, verbs to what they print.

mod approval;
mod args;
mod config;
mod flags;
mod pod_addresses;
mod storage;
mod values;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;

use crate::backup::SOCKET;
use crate::check::{self, Target};
use crate::data_dir::DataDir;
use crate::options::DATA_DIR;
use crate::pki::{Names, rotate};
use args::{
    Backup, Check, CheckFormat, Cli, ClusterInfo, Controllers, Discovery, Kubeconfig, Restore, RotateCa,
    RunFlags, Scheduler, Verb,
};
use command::{Command, Failure, Logging, commas, failed};

/// This command.
const COMMAND: Command = Command { name: "master", directory: "--data-dir" };
/// Threads that run tasks: one a core of the machine a small cluster is run from.
const THREADS: usize = 2;
/// Threads that read and write files, none while nothing is to be done.
const FILE_THREADS: usize = 16;

/// Runs the command and says how it ended.
pub fn main() -> ExitCode {
    let (cli, mistakes) = match COMMAND.parse::<Cli>(std::env::args_os().skip(1)) {
        Ok(cli) => (cli, Vec::new()),
        Err(Failure::Answered(answer)) => {
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        // Flags that exist may be wrong too: `run` tells of them together.
        Err(Failure::Mistakes(mistakes, Some(cli))) if matches!(cli.verb, Verb::Run(_)) => (*cli, mistakes),
        Err(Failure::Mistakes(mistakes, _)) => return COMMAND.misused(&mistakes),
    };
    let data_dir = cli.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR));
    match cli.verb {
        Verb::Run(ref flags) => run(flags, cli.data_dir, mistakes),
        Verb::Controllers(ref of) => controllers(of),
        Verb::Scheduler(ref of) => scheduler(of),
        Verb::Kubeconfig(ref of) => print(kubeconfig(&data_dir, of)),
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
    let (Some(read), true) = (read, mistakes.is_empty()) else { return COMMAND.misused(&mistakes) };
    read.logging.start(&COMMAND);
    until_done(crate::wiring::run(read.options))
}

fn controllers(of: &Controllers) -> ExitCode {
    let (which, lifecycle) = match flags::of_controllers(of) {
        Ok(read) => read,
        Err(mistakes) => return COMMAND.misused(&mistakes),
    };
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_controllers(&of.kubeconfig, which, lifecycle))
}

fn scheduler(of: &Scheduler) -> ExitCode {
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_scheduler(&of.kubeconfig, of.config.as_deref()))
}

fn until_done(task: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(FILE_THREADS)
        .enable_all()
        .build();
    match runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn kubeconfig(data_dir: &Path, of: &Kubeconfig) -> anyhow::Result<String> {
    Ok(DataDir::at(data_dir).kubeconfig(&of.user, &of.group, Timestamp::now())?)
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
        print(DataDir::at(data_dir).cluster_info(&names, Timestamp::now()).map_err(anyhow::Error::from))
    } else {
        COMMAND.misused(&mistakes)
    }
}

fn discovery(of: &Discovery) -> ExitCode {
    Logging::default().start(&COMMAND);
    until_done(crate::wiring::run_discovery(of.cluster_info.clone(), of.listen))
}

fn rotate_ca(data_dir: &Path, how: RotateCa) -> anyhow::Result<String> {
    let (directory, now) = (DataDir::at(data_dir), Timestamp::now());
    let pki = directory.pki();
    // Whether a master runs whose socket cannot be, nobody would know: better before than after.
    command::socket_fits(&data_dir.join(SOCKET), COMMAND.directory).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if how.retire && !how.force {
        rotate::complete(&pki)?;
        let late = runtime.block_on(check::shut_out(data_dir)).unwrap_or_else(|why| vec![why]);
        anyhow::ensure!(
            late.is_empty(),
            "the root of before is not retired, for nodes may be shut out:\n{}\n`master rotate-ca --retire --force` retires it all the same",
            late.join("\n")
        );
    }
    let done = match how {
        RotateCa { retire: true, .. } if rotate::retire(&pki)? => {
            "the root of before is retired: what it signed is void".to_owned()
        }
        RotateCa { retire: true, .. } => {
            anyhow::bail!(
                "there is no root to retire: `master rotate-ca` makes a new one beside the one there is"
            )
        }
        RotateCa { intermediate: true, .. } => {
            rotate::renew_intermediate(&pki, now)?;
            "a new intermediate authority signs from now on; nothing else has changed".to_owned()
        }
        RotateCa { .. } => {
            rotate::begin(&pki, now)?;
            let join = directory.join_string(now)?;
            format!(
                "a new root signs from now on, and the one before is believed as well. Nodes join by\n{join}\nGive people new \
                 kubeconfigs (`master kubeconfig`), let nodes renew, then `master rotate-ca --retire`"
            )
        }
    };
    let heard = match runtime.block_on(crate::backup::reload(data_dir))? {
        true => "The master that runs here has taken it up",
        false => "No master runs here: the next start takes it up",
    };
    Ok(format!("{done}.\n{heard}; copy {} to every other master of this store.\n", pki.display()))
}

fn backup(data_dir: &Path, to: &Backup) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crate::backup::fetch(data_dir, &to.file))
}

fn restore(data_dir: &Path, from: &Restore) -> anyhow::Result<String> {
    crate::backup::restore(data_dir, &from.file, from.replace, Timestamp::now())
}

fn check(of: &Check, data_dir: Option<PathBuf>) -> ExitCode {
    // The directory that nobody named is that of another master, when a kubeconfig was named.
    let data_dir = data_dir.or_else(|| of.kubeconfig.is_none().then(|| PathBuf::from(DATA_DIR)));
    let target = Target { kubeconfig: of.kubeconfig.clone(), data_dir };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let report = runtime.block_on(check::run(&target));
    let text = match of.format {
        CheckFormat::Text => check::as_text(&report),
        CheckFormat::Json => format!("{:#}\n", check::as_json(&report)),
    };
    // Whoever closed the pipe has read enough; the code says the rest.
    let _ = print(Ok(text));
    if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(text: anyhow::Result<String>) -> ExitCode {
    use std::io::Write as _;
    let written = text.and_then(|text| Ok(std::io::stdout().write_all(text.as_bytes())?));
    written.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
