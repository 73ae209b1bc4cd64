//! How long a server is left alone after trouble with it, and what of it is no trouble with the server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::is_told_elsewhere;
use crate::identity::{Api, Trouble, chance, grown, pause_after};

/// What waits until it is due is looked at at least so often, as clocks are set.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// No server is obeyed that wants to be left alone for longer.
const LONGEST_OBEYED: Duration = Duration::from_secs(60);

/// What was refused by itself is tried again after that, and each time after twice as long, up to a limit.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// Who waits longer after each try that failed.
#[derive(Debug)]
pub(super) struct Patience {
    failures: u32,
    obeys: Duration,
}

impl Patience {
    /// Nothing has failed yet.
    pub fn new() -> Self {
        Self::obeying(LONGEST_OBEYED)
    }

    /// The same, for whoever leaves a server alone for up to so long where it asks for that.
    pub fn obeying(longest: Duration) -> Self {
        Self { failures: 0, obeys: longest }
    }

    /// A try was fine.
    pub fn is_fine(&mut self) {
        self.failures = 0;
    }

    /// Tries that failed, one after the other.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes what became of a try, and waits if it failed; `None` when there will be no way to the server any more.
    pub async fn after(
        &mut self,
        done: Result<(), Trouble>,
        apis: &mut watch::Receiver<Option<Arc<Api>>>,
    ) -> Option<()> {
        match done {
            Ok(()) => {
                self.is_fine();
                Some(())
            }
            Err(trouble) => self.wait(&trouble, apis).await,
        }
    }

    /// Waits after one more that failed, or until there is another way to the server; `None` when there will be none any more.
    pub async fn wait(
        &mut self,
        trouble: &Trouble,
        apis: &mut watch::Receiver<Option<Arc<Api>>>,
    ) -> Option<()> {
        let pause = pause_after(trouble, self.failures, self.obeys, chance());
        self.failures = self.failures.saturating_add(1);
        tokio::select! {
            changed = apis.changed() => changed.ok(),
            () = tokio::time::sleep(pause) => Some(()),
        }
    }
}

/// Whether the trouble is with what was asked for alone, so that the same would be answered again, and not with the server or the node.
pub(super) fn is_of_its_own(trouble: &Trouble) -> bool {
    !is_told_elsewhere(trouble)
        && matches!(trouble, Trouble::Refused { code: 400 | 403 | 404 | 405 | 409 | 413 | 415 | 422, .. })
}

/// What is left of what became of a try once what was asked for has been put back: trouble that is not of its own alone.
pub(super) fn beyond_it(done: Result<(), Trouble>) -> Result<(), Trouble> {
    done.or_else(|trouble| if is_of_its_own(&trouble) { Ok(()) } else { Err(trouble) })
}

/// Whether a server answered, so that the trouble may be of what was asked for alone, and nothing else is to wait behind it.
pub(super) fn may_be_its_own(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Refused { code, .. } => *code != 429 && !is_told_elsewhere(trouble),
        Trouble::Damaged { .. } => true,
        Trouble::Unreachable { .. }
        | Trouble::Pin { .. }
        | Trouble::OtherCluster { .. }
        | Trouble::Clock { .. }
        | Trouble::Name { .. }
        | Trouble::NoMaster { .. }
        | Trouble::Awaited { .. } => false,
    }
}

/// How long it is until then, at most as long as anybody waits.
pub(super) fn until(due: Option<Timestamp>) -> Duration {
    let Some(due) = due else { return LONGEST_WAIT };
    Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default().min(LONGEST_WAIT)
}

/// When something is tried again that was refused so often, and once more. `share` is random, from 0 up to 1.
pub(super) fn again(now: Timestamp, refusals: &mut u32, share: f64) -> Timestamp {
    let pause = grown(FIRST_PAUSE, LONGEST_PAUSE, *refusals, share);
    *refusals = refusals.saturating_add(1);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
