//! Places for requests of one sort, and the line of those that wait for one.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::identity::Identity;
use crate::shares::{Most, Shares};
use crate::status::Status;

/// Those known by a certificate who wait: a few requests of each of 1,000 nodes, which is what they have to tell when all of them begin pods.
/// Each is a connection that is there anyway, and what it has read ahead. No user has more than a small part of the line, so that there is
/// room for others in it; a scheduler beside a master binds 128 pods at once.
const KNOWN: Most = Most { all: 5_000, user: 200, others: 5_000, what: "waiting" };
/// All others, who are found out once they are let in: by their tokens, and all together who show none.
const STRANGERS: Most = Most { all: 1_000, user: 50, others: 1_000, what: "waiting" };

/// Whose request it is, as far as that is known before it is let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits<'a> {
    /// Who, by a certificate or by none.
    pub who: Option<&'a Identity>,
    /// What else is shown, which nobody has looked at yet.
    pub token: Option<&'a HeaderValue>,
}

/// So many places, given away in the order in which they were asked for.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    known: Arc<Shares>,
    strangers: Arc<Shares>,
    hashes: RandomState,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            known: Shares::new(KNOWN),
            strangers: Shares::new(STRANGERS),
            hashes: RandomState::new(),
        }
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
        request: &Waits<'_>,
        patience: Duration,
    ) -> Result<OwnedSemaphorePermit, Status> {
        if let Ok(place) = self.at_once() {
            return Ok(place);
        }
        let _waits = match (request.who, request.token) {
            (Some(who), _) if !who.is_anonymous() => self.known.take(who)?,
            (_, Some(token)) => {
                let token = self.hashes.hash_one(token.as_bytes());
                self.strangers
                    .take(&Identity { user: format!("a token ({token:x})"), ..Identity::default() })?
            }
            _ => self.strangers.take(&Identity::anonymous())?,
        };
        match timeout(patience, self.free.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Status::too_many_requests()),
        }
    }
}
