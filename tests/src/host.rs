//! A host of its own on this machine: a network namespace, and whoever is in it.
//!
//! A namespace lives as long as somebody is in it: a program that waits for a line, which ends with the test however the test
//! ends. A thread is on one host at a time, and whatever it starts or connects is there, so tests that go from host to host
//! need a runtime of one thread. Nothing is made in the machine's own namespace, so that tests run side by side and leave nothing.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{families, innermost, send};
use crate::{DEADLINE, wait_until};

/// What becomes a host with processes, mounts and a name of its own.
const BOOT: &str = include_str!("host/boot.sh");

/// A host that ends with the value, and whatever runs there and nowhere else.
#[derive(Debug)]
pub struct Host {
    holder: Mutex<Child>,
    pid: u32,
    network: File,
    is_whole: bool,
}

impl Host {
    /// A host that has a network of its own, with nothing but the loopback, and shares all else with the test.
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

    /// A host that also has processes, mounts, `/run`, a part of every cgroup, `/etc/hosts` and a name of its own: with the value
    /// go all processes that were ever started there. It shares the files with the test, but for those: its `/run` is the folder's
    /// `run`, which is empty when it begins. It forwards nothing until somebody has it forward.
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

    /// A process that is there.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The thread is there from now on.
    pub fn enter(&self) {
        enter(&self.network);
    }

    /// Does something on its network; the thread comes back to where it was.
    pub fn at<T>(&self, what: impl FnOnce() -> T) -> T {
        let _back = Back(File::open("/proc/thread-self/ns/net").unwrap());
        self.enter();
        what()
    }

    /// What starts a program there, in all that it has of its own.
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

    /// Lays a cable from the host where the thread is to this one. Both ends are on.
    pub fn link(&self, near: &str, far: &str) {
        ip(&format!("link add {near} type veth peer name {far} netns {}", self.pid));
        ip(&format!("link set {near} up"));
        self.at(|| ip(&format!("link set {far} up")));
    }

    /// Stops every process there as if its time stood still.
    pub fn freeze(&self) {
        // Whoever was started while the others were stopped is found the next time.
        let mut told = Vec::new();
        loop {
            let mut new = self.processes("pid");
            new.retain(|pid| !told.contains(pid));
            if new.is_empty() {
                return;
            }
            new.iter().for_each(|pid| send(*pid, Signal::STOP));
            told.extend(new);
        }
    }

    /// Lets all go on.
    pub fn thaw(&self) {
        // Whoever took a program there, and waits for it outside, has stopped with it. He comes last, lest he stop again.
        self.processes("pid_for_children").iter().rev().for_each(|pid| send(*pid, Signal::CONT));
    }

    /// Who is there by one of the links under `/proc/<pid>/ns`, and all that descend from them.
    fn processes(&self, link: &str) -> Vec<i32> {
        let read = |pid: i32, link: &str| fs::read_link(format!("/proc/{pid}/ns/{link}"));
        let Ok(own) = read(self.pid.cast_signed(), "pid_for_children") else { return Vec::new() };
        families(|pid, _| read(pid, link).is_ok_and(|its| its == own))
    }

    /// Ends it and all that runs there, at once.
    pub fn kill(&self) {
        let mut holder = self.holder.lock().unwrap();
        if let Ok(None) = holder.try_wait() {
            send(innermost(self.pid), Signal::KILL);
        }
        // It is gone when all have been buried, for which those who wait outside must not be stopped.
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

/// Where the thread goes back to, also from a test that fails.
struct Back(File);

impl Drop for Back {
    fn drop(&mut self) {
        enter(&self.0);
    }
}

fn enter(network: &File) {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Runs `ip` on the host where the thread is.
pub fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

/// Runs a line of a shell on the host where the thread is; what it prints.
pub fn run(line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    printed(&mut command)
}

/// What a command prints; one that fails or complains fails the test.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (told, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complaint.is_empty(), "{command:?}: {told}{complaint}");
    told.into_owned()
}
