//! A machine for packages: an overlay over the root of this machine, in which dpkg installs, and a kubelet that runs
//! as its unit says. Nothing on this machine changes.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use tempfile::TempDir;
use tests::{Container, DEADLINE, Engine, Pod, Port, Process, binary, free_port, output, wait_until};

/// Versions of the packages that a machine can install.
const VERSIONS: [&str; 2] = [super::OLD, super::NEW];
/// How long dpkg may take on a busy machine.
const DPKG_WITHIN: Duration = Duration::from_secs(120);
/// Time of the watchdog in microseconds.
const WATCHDOG_MICROSECONDS: &str = "1000000";

/// The machine. Dropping it ends its kubelet, and removes its containers and mounts.
pub struct Machine {
    pub node: String,
    engine: Engine,
    folder: TempDir,
    notified: Notified,
    kubelet: Option<Process>,
    ports: [Port; 2],
}

impl Machine {
    /// Creates the machine, and the packages of both versions.
    pub async fn new(name: &str) -> Self {
        let engine = Engine::connect().await;
        engine.sweep().await;
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let base = folder.path();
        for directory in ["packages", "disk"] {
            fs::create_dir(base.join(directory)).unwrap();
        }
        // A layer of changes cannot be on another overlay.
        run("mount", &["-t", "tmpfs", "tmpfs", &text(&base.join("disk"))]);
        for directory in ["changes", "work", "root"] {
            fs::create_dir(base.join("disk").join(directory)).unwrap();
        }
        let disk = text(&base.join("disk"));
        let layers = format!("lowerdir=/,upperdir={disk}/changes,workdir={disk}/work");
        run("mount", &["-t", "overlay", "overlay", "-o", &layers, &format!("{disk}/root")]);
        let root = base.join("disk/root");
        // Without systemd, which dpkg's scripts would call on this machine.
        run("mount", &["-t", "tmpfs", "tmpfs", &text(&root.join("run"))]);
        for directory in ["dev", "proc", "sys"] {
            run("mount", &["--bind", &format!("/{directory}"), &text(&root.join(directory))]);
        }
        for state in ["var/lib/kubelet", "var/lib/master", "etc/coracle"] {
            let _ = fs::remove_dir_all(root.join(state));
        }
        fs::create_dir(root.join("mnt/packages")).unwrap();
        run("mount", &["--bind", &text(&base.join("packages")), &text(&root.join("mnt/packages"))]);
        if let Some(socket) = engine.address().strip_prefix("unix://") {
            let inside = root.join("run/docker.sock");
            fs::write(&inside, "").unwrap();
            run("mount", &["--bind", socket, &text(&inside)]);
        }
        build(&base.join("packages")).await;
        let notified = Notified::new(&root.join("run/notify"));
        let node = format!("test-{}-{name}", std::process::id());
        Self { node, engine, folder, notified, kubelet: None, ports: [free_port(), free_port()] }
    }

    /// A path on the machine, which is relative to its root.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join("disk/root").join(relative)
    }

    /// The path of a package inside the machine.
    pub fn package(&self, program: &str, version: &str) -> String {
        let folder = self.folder.path().join("packages");
        let start = format!("coracle-{program}_{version}_");
        let mut names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let name = names.find(|name| name.starts_with(&start)).unwrap();
        format!("/mnt/packages/{name}")
    }

    /// Runs dpkg on the machine, and returns its output. Panics if it fails.
    pub async fn dpkg(&self, arguments: &[&str]) -> String {
        self.inside("dpkg", arguments).await
    }

    /// The installed version of a package.
    pub async fn version(&self, package: &str) -> String {
        self.inside("dpkg-query", &["--show", "--showformat=${Version}", package]).await
    }

    async fn inside(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::new("chroot");
        command.arg(self.path("")).arg(program).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("DOCKER_HOST", "unix:///run/docker.sock");
        let ended = output(command, DPKG_WITHIN).await.unwrap();
        assert_eq!(ended.code, 0, "{program} {arguments:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout + &ended.stderr
    }

    /// The unit that a package installed.
    pub fn unit(&self, program: &str) -> Unit {
        let file = self.path(&format!("usr/lib/systemd/system/coracle-{program}.service"));
        Unit(fs::read_to_string(file).unwrap())
    }

    /// Runs `ExecStart` of a unit as systemd does, with `flags` in the variable for more flags. The program runs
    /// outside the chroot, so that the engine sees its mounts.
    pub fn run(&self, unit: &Unit, variable: &str, flags: &[String], notified: &Notified) -> Process {
        let words = unit.value("ExecStart").split_whitespace();
        let words: Vec<String> = words
            .flat_map(|word| match word.strip_prefix('/') {
                _ if word == variable => flags.to_vec(),
                Some(path) => vec![text(&self.path(path))],
                None => vec![word.to_owned()],
            })
            .collect();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("NOTIFY_SOCKET", &notified.path)
            .env("WATCHDOG_USEC", WATCHDOG_MICROSECONDS);
        Process::start(&mut command, &self.folder.path().join("log"))
    }

    /// Starts the kubelet without waiting.
    pub fn launch(&mut self) {
        assert!(self.kubelet.is_none(), "the kubelet runs already");
        self.notified.clear();
        let [api, healthz] = &self.ports;
        let flags = [
            format!("--root-dir={}", text(&self.path("var/lib/kubelet"))),
            format!("--pod-manifest-path={}", text(&self.path("etc/coracle/manifests"))),
            format!("--docker-endpoint=unix://{}", text(&self.path("run/docker.sock"))),
            format!("--hostname-override={}", self.node),
            format!("--port={api}"),
            format!("--healthz-port={healthz}"),
        ];
        self.kubelet = Some(self.run(&self.unit("kubelet"), "$KUBELET_FLAGS", &flags, &self.notified));
    }

    /// Starts the kubelet, and waits until it has reported that its start is complete.
    pub async fn start(&mut self) {
        self.launch();
        self.notified("READY=1").await;
    }

    /// Stops the kubelet as systemd does.
    pub async fn stop(&mut self) {
        let mut kubelet = self.kubelet.take().unwrap();
        kubelet.signal(Signal::TERM);
        self.notified("STOPPING=1").await;
        let ended = async || kubelet.ended().ok_or_else(|| "the kubelet still runs".to_owned());
        assert!(wait_until(DEADLINE, ended).await.unwrap().success());
    }

    /// Removes the socket of the engine. The test keeps its own connection.
    pub fn cut_engine(&self) {
        let socket = self.path("run/docker.sock");
        unmount(&socket, UnmountFlags::DETACH).unwrap();
        fs::remove_file(socket).unwrap();
    }

    /// Waits for a further message to the service manager that contains the text.
    pub async fn notified(&mut self, wanted: &str) {
        self.notified.wait_for(wanted).await;
    }

    /// Whether a message since the last start contains the text.
    pub fn has_notified(&self, wanted: &str) -> bool {
        self.notified.text().contains(wanted)
    }

    /// The containers of the node.
    pub async fn containers(&self) -> Vec<Container> {
        self.engine.containers(&self.node).await
    }

    /// Interfaces and packet rules of this node. Each has a hash of the node's name.
    pub fn network_leftovers(&self) -> Vec<String> {
        let digest = Command::new("sh")
            .args(["-c", "printf %s \"$1\" | sha256sum | cut -c1-6", "sh", &self.node])
            .output();
        let digest = String::from_utf8(digest.unwrap().stdout).unwrap().trim().to_owned();
        let listed = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let all = listed("nft", &["list", "ruleset"]) + &listed("ls", &["/sys/class/net"]);
        all.lines()
            .filter(|line| line.contains("coracle") && line.contains(&digest))
            .map(str::to_owned)
            .collect()
    }

    /// A pod as the installed kubelet prints it.
    ///
    /// # Errors
    /// If the kubelet does not answer or has no such pod.
    pub async fn pod(&self, name: &str) -> Result<Pod, String> {
        let mut command = tokio::process::Command::new(binary("kubelet"));
        command.arg("--root-dir").arg(self.path("var/lib/kubelet"));
        command.args(["get", "pods", &format!("{name}-{}", self.node), "-o", "json"]);
        let ended = output(command, DEADLINE).await?;
        if ended.code != 0 {
            return Err(ended.stderr);
        }
        serde_json::from_str(&ended.stdout).map(Pod).map_err(|error| error.to_string())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
        self.kubelet = None;
        let label = format!("label=io.kubernetes.node.name={}", self.node);
        let script =
            "ids=$(docker ps -aq --filter \"$1\"); [ -z \"$ids\" ] || docker rm -f -v $ids >/dev/null";
        let _ = Command::new("sh").args(["-c", script, "sh", &label]).status();
        let _ = Command::new("umount").args(["-R", "-l"]).arg(self.folder.path().join("disk")).status();
    }
}

/// A unit file of systemd.
pub struct Unit(String);

impl Unit {
    /// The value of an option that the unit sets once.
    pub fn value(&self, option: &str) -> &str {
        let mut values = self.0.lines().filter_map(|line| line.strip_prefix(option)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("{option} is missing"))
    }

    /// Whether the unit sets an option.
    pub fn has(&self, option: &str) -> bool {
        self.0.lines().any(|line| line.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
    }
}

/// The socket of a service manager, and the messages that have arrived.
pub struct Notified {
    path: PathBuf,
    socket: UnixDatagram,
    messages: Vec<String>,
}

impl Notified {
    /// Listens at a path.
    pub fn new(path: &Path) -> Self {
        let _ = fs::remove_file(path);
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { path: path.to_owned(), socket, messages: Vec::new() }
    }

    /// All messages that were read since the last start.
    pub fn text(&self) -> String {
        self.messages.join("\n")
    }

    fn clear(&mut self) {
        while self.next().is_some() {}
        self.messages.clear();
    }

    fn next(&mut self) -> Option<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        self.messages.push(message.clone());
        Some(message)
    }

    /// Reads messages until one contains the text.
    pub async fn wait_for(&mut self, wanted: &str) {
        let look = async || {
            while let Some(message) = self.next() {
                if message.contains(wanted) {
                    return Ok(());
                }
            }
            Err(format!("no {wanted} in {:?}", self.messages))
        };
        wait_until(DEADLINE, look).await.unwrap();
    }
}

/// Builds the packages of both versions from the binaries under test.
async fn build(folder: &Path) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let binaries = binary("kubelet").parent().unwrap().to_owned();
    for version in VERSIONS {
        let mut command = tokio::process::Command::new(top.join("hack/deb.sh"));
        command.arg(&binaries).arg(folder).env("VERSION", version).env("COMPRESSION", "none");
        let built = output(command, DPKG_WITHIN).await.unwrap();
        assert_eq!(built.code, 0, "{}{}", built.stdout, built.stderr);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().trim_end_matches('/').to_owned()
}
