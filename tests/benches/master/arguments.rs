//! What to measure, and how much of it.

use std::time::Duration;

use crate::hollow;
use crate::shared::words::parts;

/// One letter of the list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// (a) The master starts.
    Start,
    /// (b) What it takes: memory, and the size of its binary.
    Memory,
    /// (c) Durable creates.
    Creates,
    /// (d) Gets, lists and patches.
    Requests,
    /// (e) Watches.
    Watches,
    /// (f) Machines become nodes.
    Joins,
    /// (g) Pods get nodes.
    Schedule,
    /// (h) Nodes without engines run pods.
    Hollow,
}

impl Part {
    /// All of them, in the order of their letters.
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Memory,
        Self::Creates,
        Self::Requests,
        Self::Watches,
        Self::Joins,
        Self::Schedule,
        Self::Hollow,
    ];
}

/// How the bench was called.
#[derive(Debug)]
pub struct Arguments {
    parts: Vec<Part>,
    /// Starts of each sort.
    pub starts: usize,
    /// Pods of a small cluster.
    pub pods: usize,
    /// Clients that ask at once.
    pub clients: usize,
    /// Clients that watch at once.
    pub watchers: usize,
    /// Machines that become nodes at once.
    pub joins: usize,
    /// Nodes of the clusters in which pods get nodes, one after the other.
    pub schedule_nodes: Vec<usize>,
    /// How many pods get nodes there.
    pub schedule_pods: usize,
    /// Nodes without engines.
    pub hollow_nodes: usize,
    /// How many pods they run.
    pub hollow_pods: usize,
    /// How long they are looked at.
    pub hollow_window: Duration,
    /// This is the process of those nodes, which join by that line.
    pub be_hollow: Option<String>,
    /// How long each thing is done.
    pub window: Duration,
    /// After which a process has put away what its last work needed.
    pub settling: Duration,
    /// Whether to go on to a large cluster.
    pub large: bool,
    /// Pods of the large cluster at which to look.
    pub curve: Vec<usize>,
    /// Its nodes.
    pub nodes: usize,
}

/// The words that this bench alone knows.
const KNOWN: &str = "--quick, --large, --window SECONDS, --hollow-nodes N, --hollow-pods N";

impl Arguments {
    /// Reads the command line.
    pub fn read() -> Self {
        let mut read = Self {
            parts: Vec::new(),
            starts: 9,
            pods: 2000,
            clients: 16,
            watchers: 100,
            joins: 1000,
            schedule_nodes: vec![100, 1000, 5000],
            schedule_pods: 10_000,
            hollow_nodes: 1000,
            hollow_pods: 30_000,
            hollow_window: Duration::from_secs(60),
            be_hollow: None,
            window: Duration::from_secs(10),
            settling: Duration::from_secs(5),
            large: false,
            curve: vec![1000, 5000, 20_000, 50_000, 100_000, 150_000],
            nodes: 5000,
        };
        let parts = parts(&Part::ALL, KNOWN, |word, words| {
            match word {
                "--quick" => {
                    (read.starts, read.pods, read.watchers, read.nodes) = (3, 200, 10, 50);
                    read.joins = 50;
                    (read.schedule_nodes, read.schedule_pods) = (vec![20, 100], 1000);
                    (read.hollow_nodes, read.hollow_pods) = (20, 200);
                    read.hollow_window = Duration::from_secs(10);
                    (read.window, read.settling) = (Duration::from_secs(1), Duration::from_secs(1));
                    read.curve = vec![500, 1500];
                }
                "--large" => read.large = true,
                "--window" => read.window = Duration::from_secs(words.number(word)? as u64),
                "--hollow-nodes" => read.hollow_nodes = words.number(word)?,
                "--hollow-pods" => read.hollow_pods = words.number(word)?,
                hollow::WORD => read.be_hollow = Some(words.text(word)?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        Self { parts, ..read }
    }

    /// Whether a part is asked for.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
