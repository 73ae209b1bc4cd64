//! A node for one test: a folder, a kubelet, and the containers with the node's label.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::network;
use crate::process::Process;
use crate::{Clock, Container, DEADLINE, Engine, Host, Pod, Port, binary, free_port, report, wait_until};

/// A node under test. Dropping it removes its kubelet, containers, mounts and files.
#[derive(Debug)]
pub struct World {
    /// Name of the node: `test-<pid>-<name>`.
    pub node: String,
    /// Engine on which the node's containers run.
    pub engine: Engine,
    /// Port of the kubelet's `/healthz`.
    pub healthz_port: Port,
    /// Port of the kubelet's API over TLS.
    pub api_port: Port,
    folder: TempDir,
    flags: Vec<String>,
    endpoint: String,
    program: PathBuf,
    /// Fake clock of the kubelet, if any.
    clock: Option<Clock>,
    /// Host of the kubelet. `None` if the kubelet runs in the test's host.
    host: Option<Arc<Host>>,
    kubelet: Option<Process>,
}

/// Exit code and output of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl World {
    /// Creates a node with an empty manifest directory, without starting its kubelet.
    ///
    /// The name is short and says what the test covers.
    pub async fn new(name: &str) -> Self {
        let engine = Engine::connect().await;
        engine.sweep().await;
        Self::on(engine, name)
    }

    /// Creates a node on a private engine, which the test may stop. Otherwise does the same as `new`.
    pub fn on(engine: Engine, name: &str) -> Self {
        let node = format!("test-{}-{name}", std::process::id());
        Self::in_folder(engine, node, Path::new("/tmp"), None)
    }

    /// Creates a node on a host with its own engine, with all files in a folder. Its containers and network
    /// resources are removed with the host.
    pub(crate) fn on_host(host: Arc<Host>, engine: Engine, node: &str, folder: &Path) -> Self {
        Self::in_folder(engine, node.to_owned(), folder, Some(host))
    }

    fn in_folder(engine: Engine, node: String, parent: &Path, host: Option<Arc<Host>>) -> Self {
        // Short, because the path of a Unix socket has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("co").tempdir_in(parent).unwrap();
        let endpoint = engine.address().to_owned();
        let world = Self {
            node,
            engine,
            healthz_port: free_port(),
            api_port: free_port(),
            folder,
            flags: Vec::new(),
            endpoint,
            program: binary("kubelet"),
            clock: None,
            host,
            kubelet: None,
        };
        fs::create_dir(world.manifests()).unwrap();
        world
    }

    /// Creates a node, starts its kubelet, and waits until the kubelet answers.
    pub async fn running(name: &str) -> Self {
        let mut world = Self::new(name).await;
        world.start().await;
        world
    }

    /// Adds flags of the kubelet, effective from the next start.
    #[must_use]
    pub fn with_flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Replaces the flags of the kubelet, effective from the next start.
    pub fn set_flags<S: Into<String>>(&mut self, flags: impl IntoIterator<Item = S>) {
        self.flags = flags.into_iter().map(Into::into).collect();
    }

    /// Sets fields of a KubeletConfiguration (YAML), effective from the next start.
    #[must_use]
    pub fn with_config(self, fields: &str) -> Self {
        let path = self.path("config.yaml");
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        fs::write(&path, format!("{head}{fields}")).unwrap();
        self.with_flags(["--config".to_owned(), path.display().to_string()])
    }

    /// The manifest directory.
    pub fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// The kubelet's `--root-dir`.
    pub fn root_dir(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns a path in the node's folder, for files of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the name of a static pod. `name` is the name in the pod's manifest.
    pub fn pod_name(&self, name: &str) -> String {
        format!("{name}-{}", self.node)
    }

    // --- manifests ---

    /// Writes a manifest atomically, as an editor or a deployment tool does.
    pub fn write(&self, file: &str, text: &str) {
        let whole = self.path(".incoming");
        fs::write(&whole, text).unwrap();
        fs::rename(whole, self.manifests().join(file)).unwrap();
    }

    /// Removes a manifest from the directory.
    pub fn remove(&self, file: &str) {
        fs::remove_file(self.manifests().join(file)).unwrap();
    }

    // --- the kubelet ---

    /// Starts the kubelet and waits until it answers.
    pub async fn start(&mut self) {
        self.launch();
        self.wait_for("the kubelet to answer", async || self.pods().await.map(|_| ())).await;
    }

    /// Returns flags that select the network of `CORACLE_POD_NETWORK`, unless the test selects a network. The
    /// variable runs all tests on that network.
    fn network_flags(&self) -> Vec<String> {
        let sets_network = |flag: &String| flag == "--pod-network" || flag == "--pod-cidr";
        let named =
            std::env::var("CORACLE_POD_NETWORK").ok().filter(|_| !self.flags.iter().any(sets_network));
        named.map_or_else(Vec::new, |name| vec!["--pod-network".to_owned(), name])
    }

    /// Starts the kubelet without waiting.
    pub fn launch(&mut self) {
        let mut command = match &self.host {
            Some(host) => host.command(&self.program),
            None => Command::new(&self.program),
        };
        command
            .arg("run")
            .arg("--pod-manifest-path")
            .arg(self.manifests())
            .arg("--root-dir")
            .arg(self.root_dir())
            .args(["--docker-endpoint", &self.endpoint, "--hostname-override", &self.node])
            .args(["--port", &self.api_port.to_string(), "--healthz-port", &self.healthz_port.to_string()])
            .args(self.network_flags())
            .args(&self.flags)
            .envs(self.clock.iter().flat_map(Clock::environment));
        assert!(self.kubelet.is_none(), "the kubelet of this world already runs");
        self.kubelet = Some(Process::start(&mut command, &self.log_path()));
    }

    /// Lets the kubelet use the given engine socket from the next start. The test keeps its own connection.
    pub fn engine_at(&mut self, socket: &Path) {
        self.endpoint = format!("unix://{}", socket.display());
    }

    /// Lets the kubelet use the given fake clock from the next start.
    pub fn set_clock(&mut self, clock: &Clock) {
        self.clock = Some(clock.clone());
    }

    /// Replaces the kubelet binary with a copy that has one more byte, from the next start.
    pub fn upgrade(&mut self) {
        let new = self.path("kubelet-new");
        let mut bytes = fs::read(&self.program).unwrap();
        bytes.push(b'\n');
        fs::write(&new, bytes).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        self.program = new;
    }

    /// Stops the kubelet as an upgrade does (`SIGTERM`) and checks that it exits with 0.
    pub async fn stop(&mut self) {
        let mut kubelet = self.kubelet.take().expect("the kubelet runs");
        kubelet.signal(Signal::TERM);
        let status = wait_until(DEADLINE, async || kubelet.ended().ok_or_else(|| "it still runs".to_owned()))
            .await
            .unwrap();
        assert!(status.success(), "the kubelet ended with {status} on SIGTERM\n{}", self.log_tail());
    }

    /// Kills the kubelet (`SIGKILL`).
    pub fn kill(&mut self) {
        self.kubelet.take().expect("the kubelet runs").kill();
    }

    /// Records that the kubelet ended because its host lost power.
    pub(crate) fn is_lost(&mut self) {
        self.kubelet = None;
    }

    /// Runs the kubelet on the given host from the next start.
    pub(crate) fn move_to(&mut self, host: Arc<Host>) {
        self.host = Some(host);
    }

    /// Process ID of the kubelet.
    pub fn kubelet_pid(&self) -> u32 {
        self.kubelet.as_ref().expect("the kubelet runs").id()
    }

    /// Path of the kubelet's log.
    pub fn log_path(&self) -> PathBuf {
        self.path("kubelet.log")
    }

    /// Returns the resources that no removed pod may leave behind: containers, mounts, directories and network
    /// resources.
    pub async fn leftovers(&self) -> Vec<String> {
        let mut left: Vec<String> = self
            .containers()
            .await
            .iter()
            .map(|c| format!("container {} ({})", c.engine_name, c.state))
            .collect();
        let pods = self.root_dir().join("pods");
        left.extend(mounts_below(&pods).into_iter().map(|path| format!("mount {}", path.display())));
        let entries = fs::read_dir(&pods).into_iter().flatten();
        left.extend(entries.map(|entry| format!("directory {}", entry.unwrap().path().display())));
        left.extend(network::cables(&self.node).into_iter().map(|cable| format!("cable {cable}")));
        left.extend(network::ports(&self.node).into_iter().map(|port| format!("port {port}")));
        if network::bridge(&self.node).is_none() {
            left.extend(network::routes(&self.node).into_iter().map(|route| format!("route {route}")));
        }
        match network::records(&self.root_dir()) {
            0 => {}
            records => left.push(format!("{records} records of networks")),
        }
        left
    }

    /// Returns the end of the kubelet's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Runs a client command of `kubelet` against this node.
    pub async fn kubelet(&self, arguments: &[&str]) -> Output {
        let root_dir = self.root_dir().display().to_string();
        // Insert before the command's own arguments, because arguments after `--` belong to the command in the
        // container.
        self.run(&[&arguments[..1], &["--root-dir", &root_dir], &arguments[1..]].concat()).await
    }

    /// Runs `kubelet check`, which needs no node.
    pub async fn kubelet_check(&self, path: &str) -> Output {
        self.run(&["check", path]).await
    }

    /// Runs another kubelet with the same node name and engine but another directory. Waits until it exits.
    pub async fn rival(&self) -> Output {
        let root_dir = self.path("rival").display().to_string();
        let own = ["--root-dir", &root_dir, "--port", "0", "--healthz-port", "0"];
        let same = ["--docker-endpoint", &self.endpoint, "--hostname-override", &self.node];
        self.run(&[&["run"], &own[..], &same[..]].concat()).await
    }

    /// Runs a kubelet with the given node name on the same directory and engine. Waits until it exits.
    pub async fn renamed(&self, node: &str) -> Output {
        let root_dir = self.root_dir().display().to_string();
        let own = ["--root-dir", &root_dir, "--port", "0", "--healthz-port", "0"];
        let other = ["--docker-endpoint", &self.endpoint, "--hostname-override", node];
        self.run(&[&["run"], &own[..], &other[..]].concat()).await
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(binary("kubelet"));
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let run = tokio::time::timeout(DEADLINE, command.output()).await;
        let output =
            run.unwrap_or_else(|_| panic!("kubelet {arguments:?} did not end\n{}", self.log_tail())).unwrap();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    // --- queries ---

    /// Returns the items of `kubelet get <resource> -o json` of all namespaces.
    ///
    /// # Errors
    /// If the command fails. The error is the command's error output.
    pub async fn get(&self, resource: &str) -> Result<Vec<Value>, String> {
        let output = self.kubelet(&["get", resource, "-A", "-o", "json"]).await;
        if output.code != 0 {
            return Err(format!("kubelet get {resource} ended with {}: {}", output.code, output.stderr));
        }
        let mut list: Value = serde_json::from_str(&output.stdout).map_err(|error| error.to_string())?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => Err(format!("kubelet get {resource} gave no list of items but {other}")),
        }
    }

    /// Returns all pods of the node.
    ///
    /// # Errors
    /// If `kubelet get pods` fails. The error is the command's error output.
    pub async fn pods(&self) -> Result<Vec<Pod>, String> {
        Ok(self.get("pods").await?.into_iter().map(Pod).collect())
    }

    /// Returns the pod whose manifest has the given name.
    ///
    /// # Errors
    /// If the pod does not exist, or the kubelet does not answer.
    pub async fn pod(&self, name: &str) -> Result<Pod, String> {
        let full = self.pod_name(name);
        let found = self.pods().await?.into_iter().find(|pod| pod.name() == full);
        found.ok_or_else(|| format!("there is no pod {full}"))
    }

    /// Returns the events of a pod as `Reason: message`, oldest first.
    ///
    /// # Errors
    /// If `kubelet get events` fails. The error is the command's error output.
    pub async fn events(&self, name: &str) -> Result<Vec<String>, String> {
        let full = self.pod_name(name);
        let line = |event: &Value| {
            let text = |key: &str| event[key].as_str().unwrap_or("").to_owned();
            format!("{}: {}", text("reason"), text("message"))
        };
        let events = self.get("events").await?;
        Ok(events.iter().filter(|event| event["involvedObject"]["name"] == full.as_str()).map(line).collect())
    }

    /// Returns all containers of this node, including sandboxes.
    pub async fn containers(&self) -> Vec<Container> {
        self.engine.containers(&self.node).await
    }

    /// Returns the newest container with the given name in a pod. The name of a sandbox is `POD`.
    ///
    /// # Errors
    /// If there is no such container.
    pub async fn container(&self, pod: &str, name: &str) -> Result<Container, String> {
        let full = self.pod_name(pod);
        let mut containers = self.containers().await;
        containers.retain(|container| container.pod == full && container.name == name);
        containers.pop().ok_or_else(|| format!("pod {full} has no container {name}"))
    }

    // --- waiting ---

    /// Waits for a condition. Panics with diagnostics of the node if the condition does not hold in time.
    pub async fn wait_for<T>(&self, what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
        self.wait_within(DEADLINE, what, look).await
    }

    /// Waits for a condition with another timeout. Otherwise does the same as `wait_for`.
    pub async fn wait_within<T>(
        &self,
        deadline: Duration,
        what: &str,
        look: impl AsyncFnMut() -> Result<T, String>,
    ) -> T {
        match wait_until(deadline, look).await {
            Ok(found) => found,
            Err(seen) => panic!("waited {deadline:?} for {what}, but {seen}\n{}", report::report(self).await),
        }
    }

    /// Waits until a pod fulfils the condition, and returns it.
    pub async fn wait_for_pod(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let look = async || {
            let pod = self.pod(name).await?;
            if holds(&pod) { Ok(pod) } else { Err(format!("its status is {}", pod.0["status"])) }
        };
        self.wait_for(&format!("pod {name}: {what}"), look).await
    }

    /// Waits until a pod is Ready.
    pub async fn wait_ready(&self, name: &str) -> Pod {
        self.wait_for_pod(name, "to be Ready", Pod::is_ready).await
    }

    /// Waits until a pod has completed by itself and its sandbox is gone. Nothing changes after that.
    pub async fn wait_done(&self, name: &str) -> Pod {
        let done = |pod: &Pod| matches!(pod.phase(), "Succeeded" | "Failed");
        let pod = self.wait_for_pod(name, "to be done", done).await;
        let look = async || match self.container(name, "POD").await {
            Ok(sandbox) => Err(format!("its sandbox is there: {sandbox:?}")),
            Err(_) => Ok(()),
        };
        self.wait_for(&format!("the sandbox of {name} to go"), look).await;
        pod
    }

    /// Waits until a pod is gone from the API and from the engine.
    pub async fn wait_gone(&self, name: &str) {
        let full = self.pod_name(name);
        let look = async || {
            if self.pods().await?.iter().any(|pod| pod.name() == full) {
                return Err("the API still has it".to_owned());
            }
            let left = self.containers().await;
            let left: Vec<_> = left.iter().filter(|container| container.pod == full).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("the engine still has {left:?}")) }
        };
        self.wait_for(&format!("pod {name} to be gone"), look).await;
    }

    /// Waits for an event of a pod that contains the text.
    pub async fn wait_for_event(&self, name: &str, text: &str) -> String {
        let look = async || {
            let events = self.events(name).await?;
            events
                .iter()
                .find(|event| event.contains(text))
                .cloned()
                .ok_or_else(|| format!("its events are {events:?}"))
        };
        self.wait_for(&format!("an event of pod {name} with {text:?}"), look).await
    }

    /// Waits until a container of a pod has logged the text, and returns its whole log.
    pub async fn wait_for_log(&self, pod: &str, container: &str, text: &str) -> String {
        let look = async || {
            let log = self.engine.logs(&self.container(pod, container).await?.id).await?;
            if log.contains(text) { Ok(log) } else { Err(format!("it wrote {log:?}")) }
        };
        self.wait_for(&format!("{pod}/{container} to write {text:?}"), look).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Stop the kubelet first, because it would restart containers that are removed.
        drop(self.kubelet.take());
        if self.host.is_some() {
            return;
        }
        let (node, engine) = (self.node.clone(), self.engine.clone());
        // A separate thread, because the test's runtime is blocked in this drop.
        let cleaned = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // If the test left a private engine broken, the engine's own cleanup removes its containers.
                let _ = tokio::time::timeout(DEADLINE, engine.again().remove_all(&node)).await;
            });
        });
        let _ = cleaned.join();
        network::remove(&self.node);
        unmount_all(self.folder.path());
    }
}

/// Unmounts tmpfs and bind mounts under the folder, so that it can be removed.
pub(crate) fn unmount_all(folder: &Path) {
    for path in mounts_below(folder) {
        let _ = unmount(path, UnmountFlags::DETACH);
    }
}

/// Returns the mount points under a folder, the latest first, because a later mount may be inside an earlier one.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|path| path.starts_with(folder)).collect()
}
