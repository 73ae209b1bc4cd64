//! Child processes that never outlive their test, and process trees of this machine.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Output;

/// Runs a program to its end.
///
/// # Errors
/// If the program does not end before the deadline. It is then killed.
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

/// A running program with its output in a file. Dropping the value kills the program.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program. Appends its stdout and stderr to the log.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    /// Process ID of the program, in the test's PID namespace.
    pub fn id(&self) -> u32 {
        innermost(self.child.id()).cast_unsigned()
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        // The process may have exited already; a later wait reports that.
        send(innermost(self.child.id()), signal);
    }

    /// Returns the exit status of the program, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Kills the program (`SIGKILL`) and waits until it has exited.
    pub fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::KILL);
            // `nsenter` stops together with its stopped child, so resume it.
            send(self.child.id().cast_signed(), Signal::CONT);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process. Ignores a process that does not exist.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the PID of the program that `nsenter` or `unshare` started. Both wait for the program outside its PID
/// namespace.
pub(crate) fn innermost(pid: u32) -> i32 {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let waits = ["nsenter", "unshare"].contains(&read("comm").trim());
    let child = read(&format!("task/{pid}/children")).split(' ').next().and_then(|id| id.parse().ok());
    child.filter(|_| waits).unwrap_or(pid.cast_signed())
}

/// Attributes of a process.
pub(crate) struct Seen {
    parent: i32,
    /// Command line of the process, with a zero byte after each argument.
    pub command: String,
}

/// Returns the selected processes and all their descendants, parents first.
pub(crate) fn families(chosen: impl Fn(i32, &Seen) -> bool) -> Vec<i32> {
    let all = all();
    let mut found: Vec<i32> = all.iter().filter(|(id, seen)| chosen(**id, seen)).map(|(id, _)| *id).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|(id, seen)| seen.parent == parent && !found.contains(id));
        let children: Vec<i32> = children.map(|(id, _)| *id).collect();
        found.extend(children);
    }
    found
}

fn all() -> BTreeMap<i32, Seen> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain spaces; after it come the state and the parent PID.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let seen =
            Seen { parent: parent.unwrap_or(0), command: String::from_utf8_lossy(&command).into_owned() };
        found.insert(id, seen);
    }
    found
}
