//! Places for requests of one sort, and the line of those that wait for one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::identity::Identity;
use crate::shares::{Most, Shares};
use crate::status::Status;

/// Who waits: a few of each of 1,000 nodes, which is what they have to tell when all of them begin pods. Each is a connection that is
/// there anyway, and some KiB. No user has more than a small part of the line, so that there is room for others in it.
const IN_LINE: Most = Most { all: 5_000, user: 100, others: 5_000, what: "waiting" };

/// So many places, given away in the order in which they were asked for.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    line: Arc<Shares>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), line: Shares::new(IN_LINE) }
    }

    /// A place, if there is one.
    ///
    /// # Errors
    /// 429 where all are taken, or others wait.
    pub(super) fn at_once(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.free.clone().try_acquire_owned().map_err(|_| Status::too_many_requests())
    }

    /// A place, waited for so long at most.
    ///
    /// # Errors
    /// 429 where the line is full, or this user has his share of it, or none has come free in time.
    pub(super) async fn in_turn(
        &self,
        who: Option<&Identity>,
        patience: Duration,
    ) -> Result<OwnedSemaphorePermit, Status> {
        if let Ok(place) = self.at_once() {
            return Ok(place);
        }
        let Some(who) = who else { return Err(Status::too_many_requests()) };
        let _waits = self.line.take(who)?;
        match timeout(patience, self.free.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Status::too_many_requests()),
        }
    }
}
