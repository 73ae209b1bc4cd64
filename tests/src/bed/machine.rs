//! A machine of a bed: a Docker engine and a kubelet with their own disk, address and network link.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::switch::Switch;
use super::{BOTH, address, settle};
use crate::host::printed;
use crate::private_engine::{PrivateEngine, folder};
use crate::process::Process;
use crate::{Host, Master, World};

/// Host number of the first machine on its segment. The router and the desk have lower numbers.
const FIRST: u8 = 10;

/// Network location of a machine: its segment and its addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    versions: &'static [u8],
    segment: u8,
    /// Number of the machine on the bed.
    number: u8,
    /// Host part of the machine's addresses.
    host: u8,
}

impl Place {
    /// Creates the initial location of a machine with the given number.
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

/// A machine. Dropping it stops everything that runs there.
#[derive(Debug)]
pub struct Machine {
    /// Kubelet of the machine, with a directory on the machine's disk.
    pub node: World,
    /// Docker engine of the machine, with live restore.
    pub engine: PrivateEngine,
    /// Address of the machine, in the bed's first IP version.
    pub address: String,
    host: Arc<Host>,
    folder: PathBuf,
    switch: Arc<Switch>,
    place: Place,
    is_on: bool,
    late: Option<Process>,
}

impl Machine {
    /// Boots a machine at a location of the bed.
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

    /// Starts the kubelet with a join string of the given master and the native pod network.
    pub async fn join(&mut self, master: &Master, flags: &[&str]) {
        let line = master.verb(&["join-string"]).await.stdout.trim_end().to_owned();
        let own = ["--bootstrap", &line, "--pod-network", "native"];
        self.node.set_flags(own.iter().chain(flags).copied());
        self.node.start().await;
    }

    // --- running code on the machine ---

    /// Runs a function in the machine's network namespace. Sockets that it opens stay there.
    pub fn at<T>(&self, what: impl FnOnce() -> T) -> T {
        self.host.at(what)
    }

    /// Runs a shell command on the machine. Returns its output.
    pub fn run(&self, line: &str) -> String {
        let mut command = self.host.command("sh");
        printed(command.args(["-c", line]))
    }

    /// Returns the host of the machine, for example to run a master there.
    pub fn host(&self) -> Arc<Host> {
        self.host.clone()
    }

    /// Returns the directory of the data that survives a power cut: the engine's images and containers, and the
    /// kubelet's directory.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Kills the containerd shim of a container (`SIGKILL`).
    pub fn kill_shim(&self, container: &str) {
        // The bracket keeps the pattern from matching pkill's own command line.
        self.run(&format!("pkill -KILL -f -- '[-]id {container}'"));
    }

    // --- power ---

    /// Cuts the power: all processes end at once and data in memory is lost.
    pub fn power_off(&mut self) {
        assert!(self.is_on, "{} is off already", self.node.node);
        assert!(self.late.is_none(), "{} has a slow cable, which goes with its power", self.node.node);
        self.is_on = false;
        self.host.kill();
        self.switch.unplug(&self.port());
        self.node.is_lost();
    }

    /// Boots the machine and starts its engine, but not its kubelet.
    pub async fn boot(&mut self) {
        assert!(!self.is_on, "{} is on already", self.node.node);
        self.host = Arc::new(power(&self.folder, &self.node.node, self.place).await);
        wire(&self.switch, &self.host, self.place);
        self.node.move_to(self.host.clone());
        self.engine.move_to(self.host.clone());
        self.engine.start().await;
        self.is_on = true;
    }

    /// Freezes all processes of the machine. The kernel keeps running, so connections to the machine hang.
    pub fn freeze(&self) {
        self.host.freeze();
    }

    /// Resumes all processes.
    pub fn thaw(&self) {
        self.host.thaw();
    }

    // --- network ---

    /// Disconnects the network cable; the machine sees that its link is down.
    pub fn cut(&self) {
        self.switch.turn(&self.port(), "down");
    }

    /// Connects the cable again.
    pub fn heal(&self) {
        self.switch.turn(&self.port(), "up");
    }

    /// Delays all packets from and to the machine and drops `lost` per cent of them, until `straighten` is called.
    pub fn slow(&mut self, delay: Duration, lost: u8) {
        let log = self.folder.join("late.log");
        self.late = Some(self.switch.slow(&self.port(), self.place.segment, delay, lost, &log));
    }

    /// Removes the delay and the packet loss.
    pub fn straighten(&mut self) {
        drop(self.late.take().expect("it has a slow cable"));
        self.switch.straighten(&self.port(), self.place.segment);
    }

    /// Limits the machine's outgoing bandwidth to the given gigabits per second, until its power is cut.
    pub fn narrow(&self, gigabits: u32) {
        // A burst buffer for packets that arrive while the kernel is busy, so that only the rate limits throughput.
        self.run(&format!("tc qdisc replace dev eth0 root tbf rate {gigabits}gbit burst 1mb latency 10ms"));
    }

    /// Silently drops packets from this machine to another; packets in the other direction arrive.
    pub fn lose_towards(&self, other: &Self) {
        self.switch.lose(&self.port(), &other.port(), &other.addresses());
    }

    /// Replaces the machine's address of each IP version on its segment, as a DHCP server does.
    pub fn renumber(&mut self, host: u8) {
        self.place.host = host;
        self.address = self.place.address();
        self.host.at(|| self.place.settle());
    }

    /// Returns the machine's address of the given IP version.
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
        // Kill all processes first, so that none of them observes the rest of the shutdown.
        self.host.kill();
    }
}

/// Creates a new host for a machine's folder. Deletes the volatile data from before the power cut.
async fn power(folder: &Path, name: &str, place: Place) -> Host {
    let hosts = format!("127.0.0.1 localhost\n{} {name}\n", place.address());
    Host::whole(folder, name, &hosts).await
}

/// Connects the machine's only link. The MAC address is the same each time.
fn wire(switch: &Switch, host: &Host, place: Place) {
    let Place { segment, number, .. } = place;
    switch.plug(host, &place.port(), "eth0", segment);
    host.at(|| {
        crate::host::ip(&format!("link set eth0 address 02:77:00:00:{segment:02x}:{number:02x}"));
        place.settle();
    });
}
