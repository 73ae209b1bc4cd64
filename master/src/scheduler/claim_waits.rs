//! Assumed pods that wait until their claims are bound. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::Cluster;
use super::pod::Pod;
use super::volumes::{ClaimBinding, ClaimWait, WaitState};

/// How long a pod waits for its claims, as `bindTimeoutSeconds` of the stock plugin VolumeBinding.
const BIND_TIMEOUT: Duration = Duration::from_secs(600);

/// The waits by pod UID. The scheduler assumes each of these pods on a node, so their number is bounded by the free
/// resources of the cluster.
#[derive(Debug, Default)]
pub struct ClaimWaits(BTreeMap<String, ClaimWait>);

impl ClaimWaits {
    /// Starts the wait of an assumed pod.
    pub fn start(&mut self, pod: &Arc<Pod>, node: &str, bindings: &[ClaimBinding], now: Instant) {
        let wait = ClaimWait {
            pod: pod.clone(),
            node: node.to_owned(),
            bindings: bindings.to_vec(),
            until: now + BIND_TIMEOUT,
            seen: HashSet::new(),
        };
        self.0.insert(pod.uid.clone(), wait);
    }

    /// Ends the wait of a pod, if there is one.
    pub fn cancel(&mut self, uid: &str, cluster: &mut Cluster) {
        if let Some(wait) = self.0.remove(uid) {
            cluster.volumes_mut().forget_assumed(&wait.bindings);
        }
    }

    /// When the next wait times out.
    pub fn next_end(&self) -> Option<Instant> {
        self.0.values().map(|wait| wait.until).min()
    }

    /// Removes and returns a wait that has ended, with its result. Waits of pods that are no longer assumed are
    /// removed without a result.
    pub fn take_ended(
        &mut self,
        cluster: &mut Cluster,
        now: Instant,
    ) -> Option<(ClaimWait, Result<(), String>)> {
        let gone: Vec<String> = self.0.keys().filter(|uid| !cluster.has(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.cancel(uid, cluster));
        let ended = self.0.iter_mut().find_map(|(uid, wait)| {
            let result = match wait.check(cluster.volumes(), now) {
                WaitState::Waiting => return None,
                WaitState::Bound => Ok(()),
                WaitState::Failed(why) => Err(why),
            };
            Some((uid.clone(), result))
        });
        let (uid, result) = ended?;
        let wait = self.0.remove(&uid)?;
        cluster.volumes_mut().forget_assumed(&wait.bindings);
        Some((wait, result))
    }
}

#[cfg(test)]
mod tests;
