//! A Docker engine of a test's own, which may be stopped, frozen and killed: nobody else's containers run on it.
//!
//! It has its own containerd, folders, socket and network namespace, so that it meets the shared engine nowhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bollard::query_parameters::ImportImageOptions;
use futures_util::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};

use crate::process::Process;
use crate::world::unmount_all;
use crate::{Engine, IMAGE, wait_until};

/// Folders of private engines begin so; the id of the test's process follows, so that what a killed test left is found.
const PREFIX: &str = "/tmp/co-engine-";

/// A cold engine on a busy machine; one that is told to end gives its containers time of its own.
const DEADLINE: Duration = Duration::from_secs(90);

/// An engine that ends with the value, and with it everything that ran on it.
#[derive(Debug)]
pub struct PrivateEngine {
    folder: PathBuf,
    live_restore: bool,
    network: Process,
    containerd: Option<Process>,
    dockerd: Option<Process>,
}

impl PrivateEngine {
    /// An engine that answers and holds the test image. With `live_restore` its containers outlive it.
    pub async fn running(live_restore: bool) -> Self {
        let mut engine = Self::new(live_restore);
        engine.start().await;
        engine.load_image().await;
        engine
    }

    /// An engine that is not started yet.
    pub fn new(live_restore: bool) -> Self {
        sweep();
        let folder = (0..)
            .map(|n| PathBuf::from(format!("{PREFIX}{}-{n}", std::process::id())))
            .find(|folder| fs::create_dir(folder).is_ok())
            .unwrap();
        fs::write(
            folder.join("containerd.toml"),
            "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n",
        )
        .unwrap();
        // A namespace lives as long as a process in it; this one waits for lines that never come.
        let mut holder = Command::new("unshare");
        holder.args(["--net", "tail", "-f"]).arg(folder.join("containerd.toml"));
        let network = Process::start(&mut holder, &folder.join("network.log"));
        Self { folder, live_restore, network, containerd: None, dockerd: None }
    }

    /// A client of it; it must have run once.
    pub fn engine(&self) -> Engine {
        Engine::at(&self.socket())
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("docker.sock")
    }

    /// Starts it and waits until it answers.
    pub async fn start(&mut self) {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let log = self.folder.join("dockerd.log");
        let containerd = path("containerd.sock");
        if self.containerd.is_none() {
            let mut command = Command::new("containerd");
            command.args(["--config", &path("containerd.toml"), "--address", &containerd]);
            command.args(["--root", &path("containerd"), "--state", &path("containerd-state")]);
            self.containerd = Some(Process::start(&mut command, &log));
            self.wait("containerd to listen", async || Path::new(&containerd).exists()).await;
        }
        let namespace = format!("/proc/{}/ns/net", self.network.id());
        self.wait("a network of its own", async || {
            fs::read_link(&namespace).is_ok_and(|own| own != fs::read_link("/proc/self/ns/net").unwrap())
        })
        .await;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={namespace}")).args(["--", "dockerd", "--containerd", &containerd]);
        command.args(["--data-root", &path("data"), "--exec-root", &path("exec")]);
        command.args([
            "--pidfile",
            &path("docker.pid"),
            "--host",
            &format!("unix://{}", path("docker.sock")),
        ]);
        command.args(["--bip", "172.31.250.1/24", &format!("--live-restore={}", self.live_restore)]);
        // Not the configuration of the shared engine, which may name what is given above.
        fs::write(self.folder.join("daemon.json"), "{}").unwrap();
        command.args(["--config-file", &path("daemon.json")]);
        assert!(self.dockerd.is_none(), "this engine already runs");
        self.dockerd = Some(Process::start(&mut command, &log));
        self.wait("dockerd to answer", async || {
            self.socket().exists() && self.engine().docker().ping().await.is_ok()
        })
        .await;
    }

    /// Gives it the test image, as the shared engine has it.
    pub async fn load_image(&self) {
        let shared = Engine::connect().await;
        let pieces: Vec<_> = shared.docker().export_image(IMAGE).try_collect().await.unwrap();
        let own = self.engine();
        let load = own.docker().import_image(
            ImportImageOptions::default(),
            bollard::body_full(pieces.concat().into()),
            None,
        );
        load.try_collect::<Vec<_>>().await.unwrap();
    }

    /// Ends dockerd as a service manager does; without live restore its containers end with it.
    pub async fn stop(&mut self) {
        let mut dockerd = self.dockerd.take().expect("it runs");
        dockerd.signal(Signal::TERM);
        let ended = async || dockerd.ended().map(|_| ()).ok_or_else(|| "it still runs".to_owned());
        wait_until(DEADLINE, ended).await.unwrap();
    }

    /// Kills dockerd.
    pub fn kill(&mut self) {
        self.dockerd.take().expect("it runs").kill();
    }

    /// Stops dockerd's clock: requests to it hang.
    pub fn freeze(&self) {
        self.dockerd.as_ref().expect("it runs").signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.dockerd.as_ref().expect("it runs").signal(Signal::CONT);
    }

    async fn wait(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let look = async || if holds().await { Ok(()) } else { Err(()) };
        let waited = wait_until(DEADLINE, async || look().await.map_err(|()| "not yet".to_owned())).await;
        waited.unwrap_or_else(|_| {
            let log = fs::read_to_string(self.folder.join("dockerd.log")).unwrap_or_default();
            panic!("waited {DEADLINE:?} for {what} in vain\n{log}")
        });
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        if let Some(dockerd) = self.dockerd.take() {
            dockerd.signal(Signal::CONT);
        }
        self.containerd = None;
        remove(&self.folder);
    }
}

/// Removes what test processes left that were killed before they could.
fn sweep() {
    let Some((parent, prefix)) = PREFIX.rsplit_once('/') else { return };
    for entry in fs::read_dir(parent).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

/// Ends every process of an engine and removes its folder.
///
/// Its daemons and shims are known by the folder in their command lines, its containers by being their children.
fn remove(folder: &Path) {
    let text = format!("{}/", folder.display());
    let mut doomed: Vec<i32> =
        processes().into_iter().filter(|(_, p)| p.command.contains(&text)).map(|(id, _)| id).collect();
    let all = processes();
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        next += 1;
        let children =
            all.iter().filter(|(id, p)| p.parent == parent && !doomed.contains(id)).map(|(id, _)| *id);
        let children: Vec<i32> = children.collect();
        doomed.extend(children);
    }
    // Children last: a shim that lives would see to its container's end.
    for id in doomed {
        if let Some(pid) = Pid::from_raw(id) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    unmount_all(folder);
    let _ = fs::remove_dir_all(folder);
}

struct Seen {
    parent: i32,
    command: String,
}

fn processes() -> BTreeMap<i32, Seen> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in brackets may hold blanks; after it come the state and the parent.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let seen =
            Seen { parent: parent.unwrap_or(0), command: String::from_utf8_lossy(&command).into_owned() };
        found.insert(id, seen);
    }
    found
}
