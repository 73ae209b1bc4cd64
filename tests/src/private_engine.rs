//! A private Docker engine, which a test may stop, freeze and kill without affecting other tests.
//!
//! It has its own containerd, directories, socket and host, so it shares nothing with the common engine.

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

/// Prefix of the folders of private engines. The PID of the test follows it, so that a later test finds the folders
/// of killed tests.
const PREFIX: &str = "/tmp/co-engine-";

/// Address of an engine's host on its bridge.
pub const PRIVATE_ADDRESS: &str = "172.31.250.1";

/// Mount point of the cgroup file system.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Timeout for start and stop: a cold engine on a loaded machine starts slowly, and on stop it waits for its
/// containers.
const DEADLINE: Duration = Duration::from_secs(90);

/// A Docker engine. Dropping it stops the engine and everything that it runs.
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
    /// Starts an engine with the test image. With `live_restore`, the containers survive a restart of the engine.
    pub async fn running(live_restore: bool) -> Self {
        Self::configured(live_restore, "{}").await
    }

    /// As [`Self::running`], with that `daemon.json`.
    pub async fn configured(live_restore: bool, configuration: &str) -> Self {
        let host = Arc::new(Host::new().await);
        let mut engine = Self::on(host, folder(), &format!("{PRIVATE_ADDRESS}/24"), live_restore);
        fs::write(engine.folder.join("daemon.json"), configuration).unwrap();
        engine.start().await;
        engine.load_image(test_image().await).await;
        engine
    }

    /// Returns an engine on the given host, without starting it.
    ///
    /// The folder's `disk` holds persistent data, and its `run` everything else. `bridge` is the address of the
    /// engine's default bridge. Dropping the engine removes the folder.
    pub(crate) fn on(host: Arc<Host>, folder: PathBuf, bridge: &str, live_restore: bool) -> Self {
        for part in ["disk", "run"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let config = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
        fs::write(folder.join("containerd.toml"), config).unwrap();
        // An empty configuration, because the shared engine's may contradict the flags.
        fs::write(folder.join("daemon.json"), "{}").unwrap();
        Self { folder, host, bridge: bridge.to_owned(), live_restore, containerd: None, dockerd: None }
    }

    /// Records that the engine ended with its host. From the next start, the engine runs on the new host.
    pub(crate) fn move_to(&mut self, host: Arc<Host>) {
        (self.dockerd, self.containerd, self.host) = (None, None, host);
    }

    /// Creates a client of the engine, which must have run once.
    pub fn engine(&self) -> Engine {
        Engine::at(&self.socket())
    }

    /// The host of the engine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The folder, which is unmounted and removed with the engine.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("run/docker.sock")
    }

    /// Starts the engine and waits until it answers.
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

    /// Starts containerd and waits until it listens.
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

    pub fn kill_containerd(&mut self) {
        self.containerd.take().expect("it runs").kill();
    }

    /// Loads an exported image.
    pub async fn load_image(&self, image: Vec<u8>) {
        let own = self.engine();
        let load =
            own.docker().import_image(ImportImageOptions::default(), bollard::body_full(image.into()), None);
        load.try_collect::<Vec<_>>().await.unwrap();
    }

    /// Stops dockerd with SIGTERM. Without live restore, its containers end with it.
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

    /// Stops dockerd with SIGSTOP, so that requests to it hang.
    pub fn freeze(&self) {
        self.dockerd.as_ref().expect("it runs").signal(Signal::STOP);
    }

    /// Resumes dockerd.
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

/// The test image, exported from the shared engine.
pub(crate) async fn test_image() -> Vec<u8> {
    exported(IMAGE).await
}

/// Exports an image from the shared engine.
pub async fn exported(image: &str) -> Vec<u8> {
    let shared = Engine::connect().await;
    let pieces: Vec<_> = shared.docker().export_image(image).try_collect().await.unwrap();
    pieces.concat()
}

/// Creates a folder for an engine, and removes those of killed test processes.
pub(crate) fn folder() -> PathBuf {
    sweep();
    (0..)
        .map(|n| PathBuf::from(format!("{PREFIX}{}-{n}", std::process::id())))
        .find(|folder| fs::create_dir(folder).is_ok())
        .unwrap()
}

/// Removes folders of killed test processes.
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

/// Kills all processes of an engine, and removes its folder and its cgroup subtree.
///
/// Daemons and shims have the folder in their command lines; containers are their children.
fn remove(folder: &Path) {
    let text = format!("{}/", folder.display());
    // Kill parents first: a live shim would clean up after its container.
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

/// Removes a cgroup and its descendants, except those with processes.
fn remove_cgroup(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}
