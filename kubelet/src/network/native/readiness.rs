//! Decides whether new pods get addresses. In a cluster they do only after the cluster has assigned pod CIDRs.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long pods wait for the cluster membership after the start. Stored membership is read within moments, and a
/// node that is admitted gets its CIDRs within seconds. After the wait, the node uses its own CIDRs.
const CLUSTER_WAIT: Duration = Duration::from_secs(5);

/// Whether new pods get addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The membership is not known yet.
    Unknown,
    /// New pods get addresses.
    Allowed,
    /// New pods get no addresses, with the reason.
    Denied(String),
}

/// Lets new pods wait until they may get addresses.
pub(super) struct AddressReadiness {
    state: watch::Sender<State>,
    wait_until: Instant,
}

impl AddressReadiness {
    /// Creates the state of a node that has just started.
    pub fn new(is_of_cluster: bool) -> Self {
        let state = if is_of_cluster { State::Unknown } else { State::Allowed };
        Self { state: watch::Sender::new(state), wait_until: Instant::now() + CLUSTER_WAIT }
    }

    /// Sets the status that follows from the membership.
    pub fn set(&self, standing: &Result<(), String>) {
        self.state.send_replace(match standing {
            Ok(()) => State::Allowed,
            Err(why) => State::Denied(why.clone()),
        });
    }

    /// Waits for the first status, at most until [`CLUSTER_WAIT`] after the start.
    ///
    /// # Errors
    /// If no addresses are assigned. The error is the reason.
    pub async fn wait(&self) -> Result<(), String> {
        let mut state = self.state.subscribe();
        // After the timeout, addresses are assigned.
        let _ = timeout_at(self.wait_until, state.wait_for(|state| *state != State::Unknown)).await;
        let state = state.borrow().clone();
        match state {
            State::Denied(why) => Err(why),
            State::Unknown | State::Allowed => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of when pods start, before and after the membership is known.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn address_readiness_waits_briefly_for_the_membership() {
        let began = Instant::now();
        AddressReadiness::new(false).wait().await.unwrap();
        let readiness = AddressReadiness::new(true);
        let (passed, ()) =
            tokio::join!(readiness.wait(), async { readiness.set(&Err("another range".to_owned())) });
        assert_eq!(passed, Err("another range".to_owned()));
        readiness.set(&Ok(()));
        readiness.wait().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        let readiness = AddressReadiness::new(true);
        readiness.wait().await.unwrap();
        assert_eq!(began.elapsed(), CLUSTER_WAIT);
        readiness.wait().await.unwrap();
        assert_eq!(began.elapsed(), CLUSTER_WAIT);
    }
}
