//! Whether new pods get addresses at this moment: in a cluster they get none but those that it gave the node.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The first word of a cluster is waited for so long after the start: what was kept of it is read within moments, and who is let in at
/// once has a range within seconds. Whoever hears nothing is a node of its own until then.
const HEARS_WITHIN: Duration = Duration::from_secs(5);

/// Where they stand who want some.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leave {
    /// The cluster has not said anything.
    Unheard,
    /// They get them.
    Given,
    /// They get none; why.
    Refused(String),
}

/// Who wants some goes through it.
pub(super) struct Gate {
    leave: watch::Sender<Leave>,
    waits_until: Instant,
}

impl Gate {
    /// That of a node which has just been started.
    pub fn new(is_of_cluster: bool) -> Self {
        let leave = if is_of_cluster { Leave::Unheard } else { Leave::Given };
        Self { leave: watch::Sender::new(leave), waits_until: Instant::now() + HEARS_WITHIN }
    }

    /// What the cluster has said makes the node well, or not and why.
    pub fn set(&self, standing: &Result<(), String>) {
        self.leave.send_replace(match standing {
            Ok(()) => Leave::Given,
            Err(why) => Leave::Refused(why.clone()),
        });
    }

    /// Waits for the first word of the cluster where that may come soon.
    ///
    /// # Errors
    /// There are none, and why.
    pub async fn pass(&self) -> Result<(), String> {
        let mut leave = self.leave.subscribe();
        // Who has waited for nothing passes all the same.
        let _ = timeout_at(self.waits_until, leave.wait_for(|leave| *leave != Leave::Unheard)).await;
        let leave = leave.borrow().clone();
        match leave {
            Leave::Refused(why) => Err(why),
            Leave::Unheard | Leave::Given => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who passes, and when.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_of_a_cluster_waits_a_moment_for_its_word_and_does_as_it_says() {
        let began = Instant::now();
        Gate::new(false).pass().await.unwrap();
        let gate = Gate::new(true);
        let (passed, ()) = tokio::join!(gate.pass(), async { gate.set(&Err("another range".to_owned())) });
        assert_eq!(passed, Err("another range".to_owned()));
        gate.set(&Ok(()));
        gate.pass().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        let gate = Gate::new(true);
        gate.pass().await.unwrap();
        assert_eq!(began.elapsed(), HEARS_WITHIN);
        gate.pass().await.unwrap();
        assert_eq!(began.elapsed(), HEARS_WITHIN);
    }
}
