//! What to measure, and how much of it.

use std::time::Duration;

use crate::shared::words::parts;

/// One letter of the list of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// (a) A file comes or goes.
    Latency,
    /// (b) Many files come at once.
    Throughput,
    /// (c) Resident memory.
    Memory,
    /// (d) Processor time.
    Cpu,
    /// (e) The kubelet is started again.
    Restart,
    /// (f) TCP between pods.
    Traffic,
    /// (g) A pod comes from a master.
    Joined,
}

impl Part {
    /// All of them, in the order of their letters.
    const ALL: [Self; 7] = [
        Self::Latency,
        Self::Throughput,
        Self::Memory,
        Self::Cpu,
        Self::Restart,
        Self::Traffic,
        Self::Joined,
    ];
}

/// How the bench was called.
#[derive(Debug)]
pub struct Arguments {
    parts: Vec<Part>,
    /// Times that one pod comes and goes.
    pub rounds: usize,
    /// Pods of a full node.
    pub pods: usize,
    /// Pods of each concurrency the bare engine is tried with.
    pub tried: usize,
    /// How long processor time is counted.
    pub window: Duration,
}

/// The words that this bench alone knows.
const KNOWN: &str = "--quick, --rounds N, --pods N, --window SECONDS";

impl Arguments {
    /// Reads the command line.
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

    /// Whether a part is asked for.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
