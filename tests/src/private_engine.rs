//! A Docker engine of a test's own, which may be stopped, frozen and killed: nobody else's containers run on it.
//!
//! It has its own containerd, folders, socket and host, so that it meets the shared engine nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::ImportImageOptions;
use futures_util::TryStreamExt;
use rustix::process::Signal;

use crate::process::{Process, families, send};
use crate::world::unmount_all;
use crate::{Engine, Host, IMAGE, wait_until};

/// Folders of private engines begin so; the id of the test's process follows, so that what a killed test left is found.
const PREFIX: &str = "/tmp/co-engine-";

/// Where the kernel shows cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A cold engine on a busy machine; one that is told to end gives its containers time of its own.
const DEADLINE: Duration = Duration::from_secs(90);

/// An engine that ends with the value, and with it everything that ran on it.
#[derive(Debug)]
pub struct PrivateEngine {
    folder: PathBuf,
    host: Arc<Host>,
    bridge: String,
    live_restore: bool,
    containerd: Option<Process>,
    dockerd: Option<Process>,
}

impl PrivateEngine {
    /// An engine that answers and holds the test image. With `live_restore` its containers outlive it.
    pub async fn running(live_restore: bool) -> Self {
        let host = Arc::new(Host::new().await);
        let mut engine = Self::on(host, folder(), "172.31.250.1/24", live_restore);
        engine.start().await;
        engine.load_image(test_image().await).await;
        engine
    }

    /// An engine on that host that is not started yet. What has to stay lies in the folder's `disk`, all else in its `run`;
    /// `bridge` is the address of its own bridge. The folder goes with it.
    pub(crate) fn on(host: Arc<Host>, folder: PathBuf, bridge: &str, live_restore: bool) -> Self {
        for part in ["disk", "run"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let config = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
        fs::write(folder.join("containerd.toml"), config).unwrap();
        // Not the configuration of the shared engine, which may name what is given as flags.
        fs::write(folder.join("daemon.json"), "{}").unwrap();
        Self { folder, host, bridge: bridge.to_owned(), live_restore, containerd: None, dockerd: None }
    }

    /// It has ended with its host, and is on that one from its next start on.
    pub(crate) fn move_to(&mut self, host: Arc<Host>) {
        (self.dockerd, self.containerd, self.host) = (None, None, host);
    }

    /// A client of it; it must have run once.
    pub fn engine(&self) -> Engine {
        Engine::at(&self.socket())
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("run/docker.sock")
    }

    /// Starts it and waits until it answers.
    pub async fn start(&mut self) {
        if self.containerd.is_none() {
            self.start_containerd().await;
        }
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (log, containerd) = (self.folder.join("dockerd.log"), path("run/containerd.sock"));
        let mut command = self.host.command("dockerd");
        command.args(["--containerd", &containerd, "--config-file", &path("daemon.json")]);
        command.args(["--data-root", &path("disk/docker"), "--exec-root", &path("run/docker")]);
        let socket = format!("unix://{}", self.socket().display());
        command.args(["--pidfile", &path("run/docker.pid"), "--host", &socket]);
        command.args(["--bip", &self.bridge, &format!("--live-restore={}", self.live_restore)]);
        assert!(self.dockerd.is_none(), "this engine already runs");
        self.dockerd = Some(Process::start(&mut command, &log));
        self.wait("dockerd to answer", async || {
            self.socket().exists() && self.engine().docker().ping().await.is_ok()
        })
        .await;
    }

    /// Starts what it has its containers from, and waits until that listens.
    pub async fn start_containerd(&mut self) {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (log, socket) = (self.folder.join("dockerd.log"), path("run/containerd.sock"));
        let _ = fs::remove_file(&socket);
        let mut command = self.host.command("containerd");
        command.args(["--config", &path("containerd.toml"), "--address", &socket]);
        command.args(["--root", &path("disk/containerd"), "--state", &path("run/containerd-state")]);
        assert!(self.containerd.is_none(), "this containerd already runs");
        self.containerd = Some(Process::start(&mut command, &log));
        self.wait("containerd to listen", async || Path::new(&socket).exists()).await;
    }

    /// Kills that.
    pub fn kill_containerd(&mut self) {
        self.containerd.take().expect("it runs").kill();
    }

    /// Gives it an image, as an engine exports it.
    pub async fn load_image(&self, image: Vec<u8>) {
        let own = self.engine();
        let load =
            own.docker().import_image(ImportImageOptions::default(), bollard::body_full(image.into()), None);
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

/// The test image, as the shared engine has it.
pub(crate) async fn test_image() -> Vec<u8> {
    exported(IMAGE).await
}

/// An image of the shared engine, as it exports it.
pub async fn exported(image: &str) -> Vec<u8> {
    let shared = Engine::connect().await;
    let pieces: Vec<_> = shared.docker().export_image(image).try_collect().await.unwrap();
    pieces.concat()
}

/// A folder for an engine. What test processes left that were killed before they could remove theirs goes.
pub(crate) fn folder() -> PathBuf {
    sweep();
    (0..)
        .map(|n| PathBuf::from(format!("{PREFIX}{}-{n}", std::process::id())))
        .find(|folder| fs::create_dir(folder).is_ok())
        .unwrap()
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

/// Ends every process of an engine, and removes its folder and the part of the cgroups that is called as the folder is.
///
/// Its daemons and shims are known by the folder in their command lines, its containers by being their children.
fn remove(folder: &Path) {
    let text = format!("{}/", folder.display());
    // Children last: a shim that lives would see to its container's end.
    for pid in families(|_, seen| seen.command.contains(&text)) {
        send(pid, Signal::KILL);
    }
    unmount_all(folder);
    let _ = fs::remove_dir_all(folder);
    let name = folder.file_name().unwrap_or_default();
    let trees = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|tree| tree.path());
    for tree in trees.chain([CGROUPS.into()]) {
        remove_cgroup(&tree.join(name));
    }
}

/// Removes a cgroup and those in it; one that somebody is in stays.
fn remove_cgroup(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}
