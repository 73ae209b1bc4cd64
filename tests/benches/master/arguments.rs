//! Command-line arguments of the master benchmark: which parts to run, and with which sizes.

use std::time::Duration;

use crate::hollow;
use crate::shared::words::parts;

/// A part of the benchmark, named by its letter in the list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// (a) How long the master needs to start.
    Start,
    /// (b) Memory use and binary size.
    Memory,
    /// (c) Creates that are written to disk before the response.
    Creates,
    /// (d) Gets, lists and patches.
    Requests,
    /// (e) Watches.
    Watches,
    /// (f) How long machines need to join as nodes.
    Joins,
    /// (g) How many pods the scheduler binds per second.
    Schedule,
    /// (h) Hollow nodes that run pods.
    Hollow,
}

impl Part {
    /// All parts, in the order of their letters.
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

/// The parsed command line.
#[derive(Debug)]
pub struct Arguments {
    parts: Vec<Part>,
    /// Number of starts of each kind.
    pub starts: usize,
    /// Pods of a small cluster.
    pub pods: usize,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of concurrent watches.
    pub watchers: usize,
    /// Number of machines that join concurrently.
    pub joins: usize,
    /// Node counts of the clusters in which pods are scheduled, one after the other.
    pub schedule_nodes: Vec<usize>,
    /// Number of pods to schedule in each of those clusters.
    pub schedule_pods: usize,
    /// Number of hollow nodes.
    pub hollow_nodes: usize,
    /// Number of pods on the hollow nodes.
    pub hollow_pods: usize,
    /// Period over which the hollow nodes are observed.
    pub hollow_window: Duration,
    /// The join string of the hollow nodes. Set only in the child process that runs them.
    pub be_hollow: Option<String>,
    /// Duration of each measurement.
    pub window: Duration,
    /// Wait before a measurement, so that the process can free the memory of its last work.
    pub settling: Duration,
    /// Whether to continue with a large cluster.
    pub large: bool,
    /// Pod counts of the large cluster at which to measure.
    pub curve: Vec<usize>,
    /// Nodes of the large cluster.
    pub nodes: usize,
}

/// Options that only this benchmark accepts.
const KNOWN: &str = "--quick, --large, --window SECONDS, --hollow-nodes N, --hollow-pods N";

impl Arguments {
    /// Parses the command line.
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

    /// Whether the part is selected.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
