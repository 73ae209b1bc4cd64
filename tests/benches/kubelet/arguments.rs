//! What to measure, and how much of it.

use std::time::Duration;

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

impl Arguments {
    /// Reads the command line.
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self {
            parts: vec![Part::Latency, Part::Throughput, Part::Memory, Part::Cpu, Part::Restart],
            rounds: 30,
            pods: 100,
            tried: 40,
            window: Duration::from_secs(60),
        };
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|text| text.parse::<usize>().ok()).filter(|n| *n > 0);
                value.ok_or_else(|| format!("{word} needs a number"))
            };
            match word.as_str() {
                "--quick" => {
                    (read.rounds, read.pods, read.tried, read.window) = (5, 10, 8, Duration::from_secs(10));
                }
                "--rounds" => read.rounds = number()?,
                "--pods" => read.pods = number()?,
                "--window" => read.window = Duration::from_secs(number()? as u64),
                "--only" => {
                    let letters = words.next().unwrap_or_default();
                    read.parts = letters.split(',').map(part).collect::<Result<_, _>>()?;
                }
                "--bench" => {} // cargo says so to every bench
                other => {
                    return Err(format!(
                        "{other}: know --quick, --only a,b,c,d,e, --rounds N, --pods N, --window SECONDS"
                    ));
                }
            }
        }
        Ok(read)
    }

    /// Whether a part is asked for.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

fn part(letter: &str) -> Result<Part, String> {
    Ok(match letter {
        "a" => Part::Latency,
        "b" => Part::Throughput,
        "c" => Part::Memory,
        "d" => Part::Cpu,
        "e" => Part::Restart,
        other => return Err(format!("--only {other}: the parts are a, b, c, d and e")),
    })
}
