//! Seats of one request class, and the queues of requests that wait for a seat.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::identity::Identity;
use crate::shares::{ShareLimits, Shares};
use crate::status::Status;

/// Queue limits for users with certificates: a few requests from each of 1,000 nodes that start pods at once. A
/// waiting request costs its connection and the part of it that was read. The limit per user leaves room for
/// others; an external scheduler binds 128 pods at a time.
const CERTIFICATE_QUEUE: ShareLimits = ShareLimits { all: 5_000, user: 200, others: 5_000, what: "waiting" };
/// Queue limits for requests without a client certificate, which are authenticated only after they get a seat. Each
/// token has a limit, and all requests without a token share one.
const TOKEN_QUEUE: ShareLimits = ShareLimits { all: 1_000, user: 50, others: 1_000, what: "waiting" };

/// The sender of a request, as far as it is known before authentication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    /// Identity of the client certificate.
    pub who: Option<&'a Identity>,
    /// The `Authorization` header, not verified yet.
    pub token: Option<&'a HeaderValue>,
}

/// A number of seats, which requests get in first-in, first-out order.
#[derive(Debug)]
pub(super) struct SeatPool {
    seats: Arc<Semaphore>,
    with_certificate: Arc<Shares>,
    without_certificate: Arc<Shares>,
    hashes: RandomState,
}

impl SeatPool {
    pub(super) fn new(most: usize) -> Self {
        Self {
            seats: Arc::new(Semaphore::new(most)),
            with_certificate: Shares::new(CERTIFICATE_QUEUE),
            without_certificate: Shares::new(TOKEN_QUEUE),
            hashes: RandomState::new(),
        }
    }

    /// Acquires a seat without waiting.
    ///
    /// # Errors
    /// 429 if no seat is free, or other requests are queued.
    pub(super) fn try_acquire(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.seats.clone().try_acquire_owned().map_err(|_| Status::too_many_requests())
    }

    /// Acquires a seat, waiting at most `limit`.
    ///
    /// # Errors
    /// 429 if the queue is full, the user's share of it is used up, or the wait times out.
    pub(super) async fn acquire(
        &self,
        request: &Requester<'_>,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, Status> {
        if let Ok(seat) = self.try_acquire() {
            return Ok(seat);
        }
        let _waits = match (request.who, request.token) {
            (Some(who), _) if !who.is_anonymous() => self.with_certificate.take(who)?,
            (_, Some(token)) => {
                let token = self.hashes.hash_one(token.as_bytes());
                self.without_certificate
                    .take(&Identity { user: format!("a token ({token:x})"), ..Identity::default() })?
            }
            _ => self.without_certificate.take(&Identity::anonymous())?,
        };
        match timeout(limit, self.seats.clone().acquire_owned()).await {
            Ok(Ok(seat)) => Ok(seat),
            Ok(Err(_)) | Err(_) => Err(Status::too_many_requests()),
        }
    }
}
