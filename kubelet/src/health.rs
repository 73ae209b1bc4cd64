//! Is the kubelet itself well? An engine that is away is the node's trouble, not the kubelet's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The loops that must keep turning, each with the time of its last turn.
#[derive(Debug, Default)]
pub struct Health {
    loops: Mutex<BTreeMap<&'static str, Beat>>,
}

#[derive(Debug)]
struct Beat {
    last: Instant,
    at_least_every: Duration,
}

impl Health {
    /// Nothing to watch over yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A loop turned; it is stuck when it does not do so again in time.
    pub fn beat(&self, name: &'static str, at_least_every: Duration) {
        let beat = Beat { last: Instant::now(), at_least_every };
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).insert(name, beat);
    }

    /// The loops that are stuck.
    pub fn stuck(&self) -> Vec<&'static str> {
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops
            .iter()
            .filter(|(_, beat)| beat.last.elapsed() > beat.at_least_every)
            .map(|(name, _)| *name)
            .collect()
    }
}
