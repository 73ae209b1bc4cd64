//! Master leases: each master that shares a store renews a lease in it. The leases give the list of API servers.
//!
//! A lease is stale if it was not renewed for a while, measured by the local clock. Its key contains the master's
//! address, and a new revision means a renewal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::storage::{self, Expected, Revision, Store, Transaction};
use bytes::Bytes;
use tokio::time::Instant;

/// The key prefix of master leases, as in stock servers.
const PREFIX: &str = "/registry/masterleases/";
/// Interval between renewals, as in stock servers.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Duration of a lease, as in stock servers. It allows one failed renewal.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Resync interval of a single master. Changes are watched.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Maximum number of leases that are read; far more than masters.
const MAX_LEASES: usize = 1000;

/// The masters of a cluster.
pub enum MasterLeases {
    /// No other master uses the store.
    Alone(IpAddr),
    /// Other masters may share the store.
    Shared {
        /// The address of this master.
        own: IpAddr,
        /// The store that holds the leases.
        store: Arc<dyn Store>,
        /// The leases as they were observed.
        seen: ObservedLeases,
    },
}

impl MasterLeases {
    /// Creates the value for a master whose store others may share.
    pub fn sharing(own: IpAddr, store: Arc<dyn Store>) -> Self {
        Self::Shared { own, store, seen: ObservedLeases::default() }
    }

    /// Renews the master's own lease, deletes stale ones, and returns the addresses of all masters.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn addresses(&mut self, now: Instant) -> Result<BTreeSet<IpAddr>, storage::Error> {
        let (own, store, seen) = match self {
            Self::Alone(own) => return Ok(BTreeSet::from([*own])),
            Self::Shared { own, store, seen } => (*own, store, seen),
        };
        store.commit(Transaction::put(&key(own), Expected::Any, Bytes::from(own.to_string()))).await?;
        let page = store.range(PREFIX, None, MAX_LEASES).await?;
        let leases = page.entries.iter().map(|entry| (entry.key.as_ref(), entry.modified));
        let LeaseSnapshot { mut addresses, stale } = seen.observe(leases, now);
        for (key, revision) in stale {
            // A renewal since the read changes the revision, and the delete fails.
            store.commit(Transaction::delete(&key, Expected::Modified(revision))).await?;
        }
        addresses.insert(own);
        Ok(addresses)
    }

    /// When the leases must be renewed or checked again.
    pub fn due(&self, now: Instant) -> Instant {
        match self {
            Self::Alone(_) => now + RESYNC_INTERVAL,
            Self::Shared { .. } => now + RENEW_INTERVAL,
        }
    }

    /// Deletes the master's own lease at shutdown. The other masters notice that at their next check.
    pub async fn release(self) {
        if let Self::Shared { own, store, .. } = self
            && let Err(error) = store.commit(Transaction::delete(&key(own), Expected::Any)).await
        {
            tracing::debug!(%error, "the lease of this master stays until it is stale");
        }
    }
}

fn key(address: IpAddr) -> String {
    format!("{PREFIX}{address}")
}

/// The last revision of each lease, and when it was first observed.
#[derive(Debug, Default)]
pub struct ObservedLeases(BTreeMap<String, (Revision, Instant)>);

/// The result of one observation.
#[derive(Debug, PartialEq)]
struct LeaseSnapshot {
    addresses: BTreeSet<IpAddr>,
    /// Stale keys with their revisions.
    stale: Vec<(String, Revision)>,
}

impl ObservedLeases {
    /// Observes all leases.
    fn observe<'a>(
        &mut self,
        leases: impl Iterator<Item = (&'a str, Revision)>,
        now: Instant,
    ) -> LeaseSnapshot {
        let before = std::mem::take(&mut self.0);
        let mut known = LeaseSnapshot { addresses: BTreeSet::new(), stale: Vec::new() };
        for (key, revision) in leases {
            let Some(Ok(address)) = key.strip_prefix(PREFIX).map(str::parse) else { continue };
            let since = match before.get(key) {
                Some((seen, since)) if *seen == revision => *since,
                _ => now,
            };
            if now.duration_since(since) >= LEASE_DURATION {
                known.stale.push((key.to_owned(), revision));
            } else {
                known.addresses.insert(address);
                self.0.insert(key.to_owned(), (revision, since));
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    //! Tests that leases expire by their revisions.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn an_unrenewed_lease_is_stale() {
        let (mut seen, begun) = (ObservedLeases::default(), Instant::now());
        let (one, two) = (key("192.0.2.1".parse().unwrap()), key("192.0.2.2".parse().unwrap()));
        // Seconds, the revisions of the leases, the last bytes of the addresses that count, and the stale leases.
        for (seconds, leases, count, stale) in [
            (0, &[(&one, 5), (&two, 3)][..], &[1, 2][..], &[][..]),
            (10, &[(&one, 7), (&two, 3)], &[1, 2], &[]),
            (20, &[(&one, 8), (&two, 3)], &[1], &[(two.clone(), 3)]),
            (21, &[(&one, 8), (&two, 9)], &[1, 2], &[]),
            (40, &[(&two, 10)], &[2], &[]),
            (41, &[(&one, 8), (&two, 10)], &[1, 2], &[]),
        ] {
            let leases = leases.iter().map(|(key, revision)| (key.as_str(), *revision));
            let known = seen.observe(leases, begun + Duration::from_secs(seconds));
            let addresses: Vec<IpAddr> = count.iter().map(|end| IpAddr::from([192, 0, 2, *end])).collect();
            assert!(known.addresses.iter().eq(&addresses), "{seconds}: {known:?}");
            assert_eq!(known.stale, stale, "{seconds}");
        }
        let odd = [("/registry/masterleases/x", 1), ("elsewhere", 1)];
        assert!(seen.observe(odd.into_iter(), begun).addresses.is_empty(), "an invalid address is ignored");
    }

    #[tokio::test]
    async fn masters_that_share_a_store_find_each_other() {
        let store: Arc<dyn Store> = Arc::new(storage::Memory::new(storage::Limits::default()));
        let at = |end: u8| MasterLeases::sharing(IpAddr::from([192, 0, 2, end]), store.clone());
        let (mut one, mut two, now) = (at(1), at(2), Instant::now());
        let count = async |masters: &mut MasterLeases, seconds| {
            masters.addresses(now + Duration::from_secs(seconds)).await.unwrap().len()
        };
        assert_eq!((count(&mut one, 0).await, count(&mut two, 0).await), (1, 2));
        assert_eq!(count(&mut one, 10).await, 2);
        assert_eq!(
            (count(&mut one, 20).await, count(&mut one, 30).await),
            (2, 1),
            "the other does not renew"
        );
        assert_eq!((count(&mut two, 31).await, count(&mut one, 40).await), (2, 2), "it was only slow");
        two.release().await;
        assert_eq!(count(&mut one, 41).await, 1);
        assert_eq!(MasterLeases::Alone(IpAddr::from([192, 0, 2, 9])).addresses(now).await.unwrap().len(), 1);
    }
}
