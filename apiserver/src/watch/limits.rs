//! Limits of watches per user: their number, and the bytes of events that the client has not read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::nodes::NODES;
use crate::identity::Identity;
use crate::shares::{Share, ShareLimits, Shares};
use crate::status::Status;

/// Maximum number of watches per user. A stock kubelet opens one per ConfigMap and Secret of its pods, a
/// garbage collector one per resource.
const USER: usize = 1_000;
/// Maximum number of watches of all users that are neither nodes nor administrators. It is enough for five per pod
/// of a DaemonSet on 5,000 nodes.
const OTHERS: usize = 25_000;
/// Maximum number of watches of all nodes: ten for each of 5,000 nodes.
const OF_NODES: usize = 50_000;
/// Maximum bytes of unsent events per user. An object that several watches send counts once for each.
const USER_BYTES: usize = 16 * 1024 * 1024;
/// How long a watch waits for its user's limit before it is closed.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

const OTHER_WATCHES: ShareLimits = ShareLimits { all: OTHERS, user: USER, others: OTHERS, what: "watches" };
const NODE_WATCHES: ShareLimits =
    ShareLimits { all: OF_NODES, user: USER, others: OF_NODES, what: "watches" };

/// The limits of all users, and what counts against them.
#[derive(Debug)]
pub struct WatchLimits {
    nodes: Arc<Shares>,
    others: Arc<Shares>,
    bytes: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// An open watch that counts against the limits until it is dropped.
#[derive(Debug)]
pub struct Slot {
    _share: Share,
    bytes: Arc<Semaphore>,
    user: String,
    limits: Arc<WatchLimits>,
}

impl WatchLimits {
    /// Creates limits without open watches.
    pub fn new() -> Arc<Self> {
        let (nodes, others) = (Shares::new(NODE_WATCHES), Shares::new(OTHER_WATCHES));
        Arc::new(Self { nodes, others, bytes: Mutex::default() })
    }

    /// Opens a watch. Returns `None` for `system:masters`, which is exempt.
    ///
    /// # Errors
    /// 429 if the limit of the user or of all users is reached.
    pub fn open(self: &Arc<Self>, who: &Identity) -> Result<Option<Slot>, Status> {
        if who.is_master() {
            return Ok(None);
        }
        let user = who.account();
        let shares = if who.is_in(NODES) { &self.nodes } else { &self.others };
        let share = shares.take(&Identity { user: user.clone(), ..Identity::default() })?;
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = all.get(&user).and_then(Weak::upgrade).unwrap_or_else(|| {
            let bytes = Arc::new(Semaphore::new(USER_BYTES));
            // Entries of users without watches are removed when the map doubles, because pending bytes may
            // outlive the last watch.
            if all.len().is_power_of_two() {
                all.retain(|_, bytes| bytes.strong_count() > 0);
            }
            all.insert(user.clone(), Arc::downgrade(&bytes));
            bytes
        });
        drop(all);
        Ok(Some(Slot { _share: share, bytes, user, limits: self.clone() }))
    }
}

impl Slot {
    /// Waits for space within the user's limit. The bytes count against it until the returned buffer is dropped.
    pub(super) async fn charge(&self, chunk: Bytes) -> Bytes {
        let bytes = u32::try_from(chunk.len().min(USER_BYTES)).unwrap_or(u32::MAX);
        match self.bytes.clone().acquire_many_owned(bytes).await {
            Ok(permit) => Bytes::from_owner(Charged { chunk, _permit: permit }),
            // The semaphore is never closed.
            Err(_) => chunk,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.limits.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // Pending bytes keep the semaphore alive for the user's next watch.
        if Arc::strong_count(&self.bytes) == 1 {
            all.remove(&self.user);
        }
    }
}

/// Bytes that count against a user's limit until they are dropped.
struct Charged {
    chunk: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

#[cfg(test)]
mod tests {
    //! Tests of users at their limits, and of users that open no watch.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use futures_util::FutureExt as _;

    use super::*;
    use crate::identity::MASTERS;

    fn user(name: &str) -> Identity {
        Identity::authenticated(name, [])
    }

    #[test]
    fn watches_per_user_are_limited() {
        let limits = WatchLimits::new();
        let mut open: Vec<_> = (0..USER).map(|_| limits.open(&user("jane")).unwrap()).collect();
        let refused = limits.open(&user("jane")).unwrap_err();
        assert_eq!(
            (refused.code, &refused.details.unwrap()["retryAfterSeconds"]),
            (429.try_into().unwrap(), &1.into())
        );
        assert!(limits.open(&user("joe")).unwrap().is_some());
        let admin = Identity::authenticated("jane", [MASTERS.to_owned()]);
        assert!(limits.open(&admin).unwrap().is_none(), "administrators have no limits");
        open.pop();
        assert!(limits.open(&user("jane")).is_ok());
    }

    #[test]
    fn watches_of_all_users_leave_capacity_for_nodes() {
        let limits = WatchLimits::new();
        let names = (0..OTHERS / USER).map(|number| user(&format!("u-{number}")));
        let open: Vec<_> =
            names.flat_map(|who| vec![who; USER]).map(|who| limits.open(&who).unwrap()).collect();
        assert_eq!(open.len(), OTHERS);
        assert!(limits.open(&user("one-more")).is_err());
        let nodes = (0..5_000)
            .map(|number| Identity::authenticated(format!("system:node:n-{number}"), [NODES.to_owned()]));
        let of_nodes: Vec<_> =
            nodes.flat_map(|who| vec![who; 10]).map(|who| limits.open(&who).unwrap()).collect();
        assert_eq!(of_nodes.len(), OF_NODES);
    }

    #[tokio::test]
    async fn unsent_watch_bytes_delay_only_their_own_user() {
        let limits = WatchLimits::new();
        let slot = |name: &str| limits.open(&user(name)).unwrap().unwrap();
        let (jane, again, joe) = (slot("jane"), slot("jane"), slot("joe"));
        let half = || Bytes::from(vec![0; USER_BYTES / 2]);
        let first = jane.charge(half()).now_or_never().unwrap();
        let second = again.charge(half()).now_or_never().unwrap();
        assert!(jane.charge(Bytes::from_static(b"x")).now_or_never().is_none());
        assert!(joe.charge(half()).now_or_never().is_some());
        // A slice keeps the whole buffer alive.
        let piece = first.slice(..1);
        drop(first);
        assert!(jane.charge(half()).now_or_never().is_none());
        drop(piece);
        assert!(jane.charge(half()).now_or_never().is_some());
        drop((second, jane, again));
        assert!(
            !limits.bytes.lock().unwrap().contains_key("jane"),
            "nothing is kept of a user without watches"
        );
    }
}
