//! Progress of an image pull, computed from the engine's messages about layers.

use std::collections::BTreeMap;
use std::fmt;

use crate::runtime::PullStep;

/// The progress of a pull. It is displayed as a line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    layers: BTreeMap<String, Layer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Layer {
    done_bytes: u64,
    total_bytes: u64,
    is_complete: bool,
}

impl Progress {
    /// Applies a progress message.
    pub(super) fn add(&mut self, step: PullStep) {
        let PullStep { layer, status, done_bytes, total_bytes } = step;
        // Messages about the whole image have the tag in place of a layer id.
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
                layer.is_complete = true;
            }
            _ => {}
        }
    }

    /// Whether no layer is known yet.
    pub fn is_beginning(&self) -> bool {
        self.layers.is_empty()
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Layer) -> u64| self.layers.values().map(of).sum::<u64>();
        let (done, total) = (sum(|layer| layer.done_bytes), sum(|layer| layer.total_bytes));
        let there = self.layers.values().filter(|layer| layer.is_complete).count();
        let mib = |bytes: u64| bytes / (1024 * 1024);
        write!(f, "{} of {} MiB, {there} of {} layers", mib(done), mib(total), self.layers.len())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of progress messages of a real engine.

    use super::*;

    fn step(layer: &str, status: &str, mib: Option<(u64, u64)>) -> PullStep {
        PullStep {
            layer: layer.to_owned(),
            status: status.to_owned(),
            done_bytes: mib.map(|(done, _)| done << 20),
            total_bytes: mib.map(|(_, total)| total << 20),
        }
    }

    #[test]
    fn pull_progress_sums_all_layers() {
        let mut progress = Progress::default();
        for (layer, status, mib, expected) in [
            ("latest", "Pulling from library/busybox", None, "0 of 0 MiB, 0 of 0 layers"),
            ("a", "Pulling fs layer", None, "0 of 0 MiB, 0 of 1 layers"),
            ("b", "Already exists", None, "0 of 0 MiB, 1 of 2 layers"),
            ("a", "Downloading", Some((5, 20)), "5 of 20 MiB, 1 of 2 layers"),
            ("a", "Verifying Checksum", None, "20 of 20 MiB, 1 of 2 layers"),
            ("a", "Extracting", Some((1, 20)), "20 of 20 MiB, 1 of 2 layers"),
            ("a", "Pull complete", None, "20 of 20 MiB, 2 of 2 layers"),
            ("", "Status: Downloaded newer image", None, "20 of 20 MiB, 2 of 2 layers"),
        ] {
            progress.add(step(layer, status, mib));
            assert_eq!(progress.to_string(), expected, "{layer} {status}");
            assert_eq!(progress.is_beginning(), layer == "latest");
        }
    }
}
