//! What to measure, and how much of it.

use std::time::Duration;

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

impl Arguments {
    /// Reads the command line.
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self {
            parts: vec![Part::Start, Part::Memory, Part::Creates, Part::Requests, Part::Watches],
            starts: 9,
            pods: 2000,
            clients: 16,
            watchers: 100,
            window: Duration::from_secs(10),
            settling: Duration::from_secs(5),
            large: false,
            curve: vec![1000, 5000, 20_000, 50_000, 100_000, 150_000],
            nodes: 5000,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => {
                    (read.starts, read.pods, read.watchers, read.nodes) = (3, 200, 10, 50);
                    (read.window, read.settling) = (Duration::from_secs(1), Duration::from_secs(1));
                    read.curve = vec![500, 1500];
                }
                "--large" => read.large = true,
                "--window" => {
                    let seconds = words.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
                    read.window = Duration::from_secs(seconds.ok_or("--window needs a number of seconds")?);
                }
                "--only" => {
                    let letters = words.next().unwrap_or_default();
                    let letters = letters.split(',').filter(|letter| !letter.is_empty());
                    read.parts = letters.map(part).collect::<Result<_, _>>()?;
                }
                "--bench" => {} // cargo says so to every bench
                other => {
                    return Err(format!(
                        "{other}: know --quick, --only a,b,c,d,e, --large, --window SECONDS"
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
        "a" => Part::Start,
        "b" => Part::Memory,
        "c" => Part::Creates,
        "d" => Part::Requests,
        "e" => Part::Watches,
        other => return Err(format!("--only {other}: the parts are a, b, c, d and e")),
    })
}
