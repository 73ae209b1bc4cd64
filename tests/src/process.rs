//! A process that a test starts and that never outlives it.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Output;

/// Runs a program to its end, which it may take so long to reach.
///
/// # Errors
/// When it takes longer; it is killed then.
pub async fn output(mut command: tokio::process::Command, deadline: Duration) -> Result<Output, String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let run = tokio::time::timeout(deadline, command.output()).await;
    let output = run.map_err(|_| format!("{command:?} did not end"))?.map_err(|error| error.to_string())?;
    Ok(Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A running program whose output goes to a file; it is killed when the value goes.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program; both its streams are appended to the log.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        // It may have ended on its own; whoever waits for it finds out.
        let _ = kill_process(pid, signal);
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Kills it at once (`SIGKILL`) and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
