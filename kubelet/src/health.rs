//! Health of the kubelet itself. An engine that does not answer makes the node unready, but not the kubelet
//! unhealthy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The loops that are monitored, each with its last heartbeat.
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
    /// Creates a value that monitors no loops yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Records a heartbeat of a loop. The loop is stuck if the next heartbeat does not follow within
    /// `at_least_every`.
    pub fn beat(&self, name: &'static str, at_least_every: Duration) {
        let beat = Beat { last: Instant::now(), at_least_every };
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).insert(name, beat);
    }

    /// Returns the stuck loops.
    pub fn stuck(&self) -> Vec<&'static str> {
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops
            .iter()
            .filter(|(_, beat)| beat.last.elapsed() > beat.at_least_every)
            .map(|(name, _)| *name)
            .collect()
    }
}
