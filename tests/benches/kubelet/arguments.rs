//! Command-line arguments of the kubelet benchmark: which parts to run, and with which sizes.

use std::time::Duration;

use crate::shared::words::parts;

/// A part of the benchmark, named by its letter in the list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// (a) Latency: a manifest file is added or removed.
    Latency,
    /// (b) Throughput: many manifest files are added at once.
    Throughput,
    /// (c) Resident memory.
    Memory,
    /// (d) CPU time.
    Cpu,
    /// (e) Restart of the kubelet.
    Restart,
    /// (f) TCP traffic between pods.
    Traffic,
    /// (g) Latency of a pod that the master assigns to the node.
    Joined,
    /// (h) Answers of the DNS server.
    Names,
}

impl Part {
    /// All parts, in the order of their letters.
    const ALL: [Self; 8] = [
        Self::Latency,
        Self::Throughput,
        Self::Memory,
        Self::Cpu,
        Self::Restart,
        Self::Traffic,
        Self::Joined,
        Self::Names,
    ];
}

/// The parsed command line.
#[derive(Debug)]
pub struct Arguments {
    parts: Vec<Part>,
    /// Number of times that one pod is started and stopped.
    pub rounds: usize,
    /// Number of pods on a full node.
    pub pods: usize,
    /// Number of pods per concurrency level when the bare engine is measured.
    pub tried: usize,
    /// Period over which CPU time is measured.
    pub window: Duration,
}

/// Options that only this benchmark accepts.
const KNOWN: &str = "--quick, --rounds N, --pods N, --window SECONDS";

impl Arguments {
    /// Parses the command line.
    pub fn read() -> Self {
        let mut read =
            Self { parts: Vec::new(), rounds: 30, pods: 100, tried: 40, window: Duration::from_secs(60) };
        let parts = parts(&Part::ALL, KNOWN, |word, words| {
            match word {
                "--quick" => {
                    (read.rounds, read.pods, read.tried, read.window) = (5, 10, 8, Duration::from_secs(10));
                }
                "--rounds" => read.rounds = words.number(word)?,
                "--pods" => read.pods = words.number(word)?,
                "--window" => read.window = Duration::from_secs(words.number(word)? as u64),
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
