//! A simulated host on this machine: a network namespace with its processes, optionally with other namespaces.
//!
//! A namespace lives as long as it contains a process. A holder process waits for input and ends with the test,
//! however the test ends. A thread is in one host at a time; programs that it starts and connections that it opens
//! are there. Tests that switch hosts therefore need a single-threaded runtime. Nothing is created in the real
//! network namespace, so tests can run concurrently and leave nothing behind.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{families, innermost, send};
use crate::{DEADLINE, wait_until};

/// Script that sets up a host with its own processes, mounts and host name.
const BOOT: &str = include_str!("host/boot.sh");

/// A simulated host. Dropping it stops its processes.
#[derive(Debug)]
pub struct Host {
    holder: Mutex<Child>,
    pid: u32,
    network: File,
    is_whole: bool,
}

impl Host {
    /// Creates a host with its own network namespace, which has only a loopback link. The host shares everything
    /// else with the test.
    pub async fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let host = Self::held(command, false, async |path: &str| {
            let own = fs::read_link("/proc/thread-self/ns/net").map_err(|error| error.to_string())?;
            let its = fs::read_link(path).map_err(|error| error.to_string())?;
            if its == own { Err("it is in the test's own network".to_owned()) } else { Ok(()) }
        });
        let host = host.await;
        host.at(|| ip("link set lo up"));
        host
    }

    /// Creates a host that also has its own PID, mount and UTS namespaces, `/run`, cgroup subtree and `/etc/hosts`.
    ///
    /// Dropping it kills all processes that were ever started there. Other files are shared with the test. `/run`
    /// is the initially empty `run` of the folder. IP forwarding is off by default.
    pub async fn whole(folder: &Path, name: &str, hosts: &str) -> Self {
        let run = folder.join("run");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&run).unwrap();
        fs::write(folder.join("hosts"), hosts).unwrap();
        fs::write(folder.join("boot.sh"), BOOT).unwrap();
        let log = folder.join("boot.log");
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh"]);
        command.arg(folder.join("boot.sh")).arg(folder).arg(name);
        let output = File::create(&log).unwrap();
        command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
        Self::held(command, true, async |_| match fs::exists(run.join("booted")) {
            Ok(true) => Ok(()),
            other => Err(format!("{other:?}: {}", fs::read_to_string(&log).unwrap_or_default())),
        })
        .await
    }

    async fn held(
        mut command: Command,
        is_whole: bool,
        is_there: impl AsyncFn(&str) -> Result<(), String>,
    ) -> Self {
        let holder = command.spawn().unwrap();
        let pid = holder.id();
        let path = format!("/proc/{pid}/ns/net");
        wait_until(DEADLINE, async || is_there(&path).await).await.unwrap();
        Self { network: File::open(&path).unwrap(), pid, holder: Mutex::new(holder), is_whole }
    }

    /// PID of a process in the host.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Moves the current thread to the host.
    pub fn enter(&self) {
        enter(&self.network);
    }

    /// Runs a function in the host's network namespace and moves the thread back afterwards.
    pub fn at<T>(&self, what: impl FnOnce() -> T) -> T {
        let _back = Back(File::open("/proc/thread-self/ns/net").unwrap());
        self.enter();
        what()
    }

    /// Returns a command that runs a program in all namespaces of the host.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        let own = |kind: &str| format!("/proc/{}/ns/{kind}", self.pid);
        command.arg(format!("--net={}", own("net")));
        if self.is_whole {
            for kind in ["mount", "uts", "ipc", "pid"] {
                let file = own(match kind {
                    "mount" => "mnt",
                    "pid" => "pid_for_children",
                    other => other,
                });
                command.arg(format!("--{kind}={file}"));
            }
        }
        command.arg("--").arg(program.as_ref());
        command
    }

    /// Connects the current thread's host to this one with a veth pair. Both ends are up.
    pub fn link(&self, near: &str, far: &str) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.pid));
        ip(&format!("link set {near} up"));
        self.at(|| ip(&format!("link set {far} up")));
    }

    /// Stops all processes of the host with SIGSTOP.
    pub fn freeze(&self) {
        // Repeat until no new process is found, because processes may fork while others are being stopped.
        let mut seen = Vec::new();
        loop {
            let mut new = self.processes("pid");
            new.retain(|pid| !seen.contains(pid));
            if new.is_empty() {
                return;
            }
            new.iter().for_each(|pid| send(*pid, Signal::STOP));
            seen.extend(new);
        }
    }

    /// Resumes all processes of the host.
    pub fn thaw(&self) {
        // A helper outside that waits for a program inside has stopped with it. Resume parents last, so that they do
        // not stop again.
        self.processes("pid_for_children").iter().rev().for_each(|pid| send(*pid, Signal::CONT));
    }

    /// Returns the processes whose link under `/proc/<pid>/ns` is the host's, and all their descendants.
    fn processes(&self, link: &str) -> Vec<i32> {
        let read = |pid: i32, link: &str| fs::read_link(format!("/proc/{pid}/ns/{link}"));
        let Ok(own) = read(self.pid.cast_signed(), "pid_for_children") else { return Vec::new() };
        families(|pid, _| read(pid, link).is_ok_and(|its| its == own))
    }

    /// Kills the host and all its processes.
    pub fn kill(&self) {
        let mut holder = self.holder.lock().unwrap();
        if let Ok(None) = holder.try_wait() {
            send(innermost(self.pid), Signal::KILL);
        }
        // The host has ended once all its processes are reaped. Helpers outside must not be stopped, or they would not
        // reap theirs.
        while self.is_whole && matches!(holder.try_wait(), Ok(None)) {
            self.thaw();
        }
        let _ = holder.wait();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Moves the thread back to its own network namespace when the value is dropped, also when the test panics.
struct Back(File);

impl Drop for Back {
    fn drop(&mut self) {
        enter(&self.0);
    }
}

fn enter(network: &File) {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Runs `ip` in the current thread's host.
pub fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

/// Runs a shell command in the current thread's host. Returns its output.
pub fn run(line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    printed(&mut command)
}

/// Returns the output of a command. Panics if the command fails or writes to stderr.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (seen, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complaint.is_empty(), "{command:?}: {seen}{complaint}");
    seen.into_owned()
}
