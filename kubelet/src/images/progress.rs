//! How far a pull is, from what the engine says of its layers.

use std::collections::BTreeMap;
use std::fmt;

use crate::runtime::PullStep;

/// A pull under way; displays as a line for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    layers: BTreeMap<String, Layer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Layer {
    done_bytes: u64,
    total_bytes: u64,
    is_there: bool,
}

impl Progress {
    /// Takes in what the engine said.
    pub(super) fn add(&mut self, step: PullStep) {
        let PullStep { layer, status, done_bytes, total_bytes } = step;
        // Lines about the whole image bear its tag in place of a layer.
        let about_layers =
            ["Pulling fs", "Waiting", "Download", "Verifying", "Extracting", "Pull complete", "Already"];
        if layer.is_empty() || !about_layers.iter().any(|word| status.starts_with(word)) {
            return;
        }
        let layer = self.layers.entry(layer).or_default();
        match status.as_str() {
            "Downloading" => {
                layer.done_bytes = done_bytes.unwrap_or(layer.done_bytes);
                layer.total_bytes = total_bytes.unwrap_or(layer.total_bytes);
            }
            "Download complete" | "Verifying Checksum" => layer.done_bytes = layer.total_bytes,
            "Pull complete" | "Already exists" => {
                layer.done_bytes = layer.total_bytes;
                layer.is_there = true;
            }
            _ => {}
        }
    }

    /// True until the engine has named the first layer.
    pub fn is_beginning(&self) -> bool {
        self.layers.is_empty()
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Layer) -> u64| self.layers.values().map(of).sum::<u64>();
        let (done, total) = (sum(|layer| layer.done_bytes), sum(|layer| layer.total_bytes));
        let there = self.layers.values().filter(|layer| layer.is_there).count();
        let mib = |bytes: u64| bytes / (1024 * 1024);
        write!(f, "{} of {} MiB, {there} of {} layers", mib(done), mib(total), self.layers.len())
    }
}

#[cfg(test)]
mod tests;
