//! Which masters there are: every one that shares its store with others holds a lease there and renews it.
//!
//! A lease is stale when it was not renewed for a while by the clock of whoever looks: clocks of other machines count for
//! nothing. What a lease says is its key, the address of its master; its revision tells that it was renewed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::storage::{self, Expected, Revision, Store, Transaction};
use bytes::Bytes;
use tokio::time::Instant;

/// Where leases lie in the store: those of the stock servers do too.
const PREFIX: &str = "/registry/masterleases/";
/// How often a lease is renewed; as stock servers do.
const RENEW: Duration = Duration::from_secs(10);
/// A lease that was not renewed for so long is nobody's; the stock server's, which has room for one renewal that fails.
const STALE: Duration = Duration::from_secs(15);
/// A master alone looks so often whether all is as it should be; what changes it hears at once.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// Leases that are read: far more masters than a store serves.
const MOST: usize = 1000;

/// The masters of a cluster, as one of them sees it.
pub enum Masters {
    /// Nobody else can have this one's store.
    Alone(IpAddr),
    /// Others may share it.
    Shared {
        /// This one.
        own: IpAddr,
        /// Where leases are.
        store: Arc<dyn Store>,
        /// What was seen of them.
        seen: Seen,
    },
}

impl Masters {
    /// This master at that address, in a store that others may share.
    pub fn sharing(own: IpAddr, store: Arc<dyn Store>) -> Self {
        Self::Shared { own, store, seen: Seen::default() }
    }

    /// Their addresses, after this one's lease is renewed and stale ones are gone.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn addresses(&mut self, now: Instant) -> Result<BTreeSet<IpAddr>, storage::Error> {
        let (own, store, seen) = match self {
            Self::Alone(own) => return Ok(BTreeSet::from([*own])),
            Self::Shared { own, store, seen } => (*own, store, seen),
        };
        store.commit(Transaction::put(&key(own), Expected::Any, Bytes::from(own.to_string()))).await?;
        let page = store.range(PREFIX, None, MOST).await?;
        let leases = page.entries.iter().map(|entry| (entry.key.as_ref(), entry.modified));
        let Known { mut addresses, stale } = seen.take(leases, now);
        for (key, revision) in stale {
            // Whoever renews it meanwhile keeps it: then it is not as it was.
            store.commit(Transaction::delete(&key, Expected::Modified(revision))).await?;
        }
        addresses.insert(own);
        Ok(addresses)
    }

    /// When they are to be looked at again.
    pub fn due(&self, now: Instant) -> Instant {
        match self {
            Self::Alone(_) => now + LOOK,
            Self::Shared { .. } => now + RENEW,
        }
    }

    /// Gives this one's lease back; the others notice when they look.
    pub async fn leave(self) {
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

/// What was seen of leases: the revision that renewed each last, and when that was seen first.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<String, (Revision, Instant)>);

/// What leases say.
#[derive(Debug, PartialEq)]
struct Known {
    addresses: BTreeSet<IpAddr>,
    /// Keys, and the revisions that they are to be deleted at.
    stale: Vec<(String, Revision)>,
}

impl Seen {
    /// Takes in all leases there are.
    fn take<'a>(&mut self, leases: impl Iterator<Item = (&'a str, Revision)>, now: Instant) -> Known {
        let before = std::mem::take(&mut self.0);
        let mut known = Known { addresses: BTreeSet::new(), stale: Vec::new() };
        for (key, revision) in leases {
            let Some(Ok(address)) = key.strip_prefix(PREFIX).map(str::parse) else { continue };
            let since = match before.get(key) {
                Some((seen, since)) if *seen == revision => *since,
                _ => now,
            };
            if now.duration_since(since) >= STALE {
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
    //! Leases in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn a_lease_is_stale_when_nobody_renews_it() {
        let (mut seen, begun) = (Seen::default(), Instant::now());
        let (one, two) = (key("192.0.2.1".parse().unwrap()), key("192.0.2.2".parse().unwrap()));
        // After so many seconds leases have these revisions, and these last parts of addresses count.
        for (seconds, leases, count, stale) in [
            (0, &[(&one, 5), (&two, 3)][..], &[1, 2][..], &[][..]),
            (10, &[(&one, 7), (&two, 3)], &[1, 2], &[]),
            (20, &[(&one, 8), (&two, 3)], &[1], &[(two.clone(), 3)]),
            (21, &[(&one, 8), (&two, 9)], &[1, 2], &[]),
            (40, &[(&two, 10)], &[2], &[]),
            (41, &[(&one, 8), (&two, 10)], &[1, 2], &[]),
        ] {
            let leases = leases.iter().map(|(key, revision)| (key.as_str(), *revision));
            let known = seen.take(leases, begun + Duration::from_secs(seconds));
            let addresses: Vec<IpAddr> = count.iter().map(|end| IpAddr::from([192, 0, 2, *end])).collect();
            assert!(known.addresses.iter().eq(&addresses), "{seconds}: {known:?}");
            assert_eq!(known.stale, stale, "{seconds}");
        }
        let odd = [("/registry/masterleases/x", 1), ("elsewhere", 1)];
        assert!(seen.take(odd.into_iter(), begun).addresses.is_empty(), "what is no address is nobody's");
    }

    #[tokio::test]
    async fn masters_of_one_store_see_each_other_until_they_leave() {
        let store: Arc<dyn Store> = Arc::new(storage::Memory::new(storage::Limits::default()));
        let at = |end: u8| Masters::sharing(IpAddr::from([192, 0, 2, end]), store.clone());
        let (mut one, mut two, now) = (at(1), at(2), Instant::now());
        let count = async |masters: &mut Masters, seconds| {
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
        two.leave().await;
        assert_eq!(count(&mut one, 41).await, 1);
        assert_eq!(Masters::Alone(IpAddr::from([192, 0, 2, 9])).addresses(now).await.unwrap().len(), 1);
    }
}
