//! A machine of a bed: an engine and a kubelet with a disk, an address and a cable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::switch::Switch;
use super::{BOTH, address, settle};
use crate::host::printed;
use crate::private_engine::{PrivateEngine, folder};
use crate::process::Process;
use crate::{Host, Master, World};

/// The first machine's place on its segment; below it are the router and the desk.
const FIRST: u8 = 10;

/// Where a machine is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    versions: &'static [u8],
    segment: u8,
    /// Its number on the bed.
    number: u8,
    /// What its addresses end with.
    host: u8,
}

impl Place {
    /// The first place of a machine of that number.
    pub fn new(versions: &'static [u8], segment: u8, number: u8) -> Self {
        Self { versions, segment, number, host: FIRST + number }
    }

    fn address(&self) -> String {
        address(self.versions[0], self.segment, self.host)
    }

    fn port(&self) -> String {
        format!("port{}", self.number)
    }

    fn settle(&self) {
        settle(self.versions, self.segment, self.host);
    }
}

/// A machine. It ends with the value, and with it all that runs there.
#[derive(Debug)]
pub struct Machine {
    /// Its kubelet, with a directory on the machine's disk.
    pub node: World,
    /// Its Docker engine, whose containers outlive it.
    pub engine: PrivateEngine,
    /// Where it is reached by the first version of IP that the bed has.
    pub address: String,
    host: Arc<Host>,
    folder: PathBuf,
    switch: Arc<Switch>,
    place: Place,
    is_on: bool,
    late: Option<Process>,
}

impl Machine {
    /// The machine at a place of the bed, which has booted.
    pub(super) async fn new(switch: Arc<Switch>, image: &[u8], place: Place, name: String) -> Self {
        let (folder, address) = (folder(), place.address());
        let host = Arc::new(power(&folder, &name, place).await);
        let bridge = format!("172.31.{}.1/24", place.host);
        let mut engine = PrivateEngine::on(host.clone(), folder.clone(), &bridge, true);
        wire(&switch, &host, place);
        engine.start().await;
        engine.load_image(image.to_vec()).await;
        let node = World::on_host(host.clone(), engine.engine(), &name, &folder.join("disk"));
        Self { node, engine, address, host, folder, switch, place, is_on: true, late: None }
    }

    /// A line that leads its kubelet into the cluster of a master at the desk or on another machine, and the pods into its network.
    pub async fn join(&mut self, master: &Master, flags: &[&str]) {
        let line = master.verb(&["join-string"]).await.stdout.trim_end().to_owned();
        let own = ["--bootstrap", &line, "--pod-network", "native"];
        self.node.set_flags(own.iter().chain(flags).copied());
        self.node.start().await;
    }

    // --- what is done on it ---

    /// Does something on its network; whatever is connected or listens stays there.
    pub fn at<T>(&self, what: impl FnOnce() -> T) -> T {
        self.host.at(what)
    }

    /// Runs a line of a shell on it; what it prints.
    pub fn run(&self, line: &str) -> String {
        let mut command = self.host.command("sh");
        printed(command.args(["-c", line]))
    }

    /// Where a master may run too.
    pub fn host(&self) -> Arc<Host> {
        self.host.clone()
    }

    /// What is kept when the power is cut: the engine's images and containers, the kubelet's directory.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Kills what its engine keeps a container with (`SIGKILL`).
    pub fn kill_shim(&self, container: &str) {
        // As a pattern it is not found in the words of who looks for it.
        self.run(&format!("pkill -KILL -f -- '[-]id {container}'"));
    }

    // --- power ---

    /// Cuts its power: every process is gone at once, and what was in memory is lost.
    pub fn power_off(&mut self) {
        assert!(self.is_on, "{} is off already", self.node.node);
        assert!(self.late.is_none(), "{} has a slow cable, which goes with its power", self.node.node);
        self.is_on = false;
        self.host.kill();
        self.switch.unplug(&self.port());
        self.node.is_lost();
    }

    /// Switches it on and starts its engine; its kubelet is not started yet.
    pub async fn boot(&mut self) {
        assert!(!self.is_on, "{} is on already", self.node.node);
        self.host = Arc::new(power(&self.folder, &self.node.node, self.place).await);
        wire(&self.switch, &self.host, self.place);
        self.node.move_to(self.host.clone());
        self.engine.move_to(self.host.clone());
        self.engine.start().await;
        self.is_on = true;
    }

    /// Stops the time of all that runs on it. Its kernel goes on: connections to it hang.
    pub fn freeze(&self) {
        self.host.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.host.thaw();
    }

    // --- network ---

    /// Pulls its cable: it sees that it has none.
    pub fn cut(&self) {
        self.switch.turn(&self.port(), "down");
    }

    /// Puts it back.
    pub fn heal(&self) {
        self.switch.turn(&self.port(), "up");
    }

    /// Puts the world between it and its segment: all it sends and gets comes so much later, and of a hundred packets so many are
    /// lost, until it is straightened.
    pub fn slow(&mut self, delay: Duration, lost: u8) {
        let log = self.folder.join("late.log");
        self.late = Some(self.switch.slow(&self.port(), self.place.segment, delay, lost, &log));
    }

    /// Takes the world away again that was put in between.
    pub fn straighten(&mut self) {
        drop(self.late.take().expect("it has a slow cable"));
        self.switch.straighten(&self.port(), self.place.segment);
    }

    /// Its link takes no more than so many gigabits a second from it, until its power is cut.
    pub fn narrow(&self, gigabits: u32) {
        // Room for what arrives while the kernel is at something else, so that it is the rate that counts.
        self.run(&format!("tc qdisc replace dev eth0 root tbf rate {gigabits}gbit burst 1mb latency 10ms"));
    }

    /// What it sends to another machine is lost, and nobody is told; what comes from there arrives.
    pub fn lose_towards(&self, other: &Self) {
        self.switch.lose(&self.port(), &other.port(), &other.addresses());
    }

    /// Gives it another address of each version of IP on its segment in place of the one it has, as a DHCP server does.
    pub fn renumber(&mut self, host: u8) {
        self.place.host = host;
        self.address = self.place.address();
        self.host.at(|| self.place.settle());
    }

    /// Where it is reached by a version of IP.
    pub fn address_of(&self, version: u8) -> String {
        address(version, self.place.segment, self.place.host)
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        BOTH.iter().map(|version| self.address_of(*version)).collect()
    }

    pub(super) fn port(&self) -> String {
        self.place.port()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // First all that runs: nobody sees that the rest goes.
        self.host.kill();
    }
}

/// A host of that folder; what it had before the power was cut is gone.
async fn power(folder: &Path, name: &str, place: Place) -> Host {
    let hosts = format!("127.0.0.1 localhost\n{} {name}\n", place.address());
    Host::whole(folder, name, &hosts).await
}

/// Its one link, which has the same hardware address each time.
fn wire(switch: &Switch, host: &Host, place: Place) {
    let Place { segment, number, .. } = place;
    switch.plug(host, &place.port(), "eth0", segment);
    host.at(|| {
        crate::host::ip(&format!("link set eth0 address 02:77:00:00:{segment:02x}:{number:02x}"));
        place.settle();
    });
}
