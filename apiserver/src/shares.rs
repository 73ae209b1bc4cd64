//! Limits the concurrent requests of each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::identity::{Identity, MASTERS};
use crate::status::Status;

/// Maximum number of concurrent requests: in total, per user, and of non-administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Limit for all requests together.
    pub all: usize,
    /// Limit for each user.
    pub user: usize,
    /// Limit for all users outside `system:masters` together. The difference to `all` is reserved for
    /// administrators and the server itself.
    pub others: usize,
    /// What the requests do, for error messages, such as `waiting`.
    pub what: &'static str,
}

/// Counts concurrent requests per user.
#[derive(Debug)]
pub struct Shares {
    most: ShareLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    masters: usize,
    others: usize,
    /// Non-administrators with at least one request.
    users: HashMap<String, usize>,
}

/// The share of one running request, released on drop.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    /// The user, or `None` for an administrator.
    user: Option<String>,
}

impl Shares {
    /// Creates counters with these limits.
    pub fn new(most: ShareLimits) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Counts a request of a user until the share is dropped.
    ///
    /// # Errors
    /// 429 if a limit is reached.
    pub fn take(self: &Arc<Self>, who: &Identity) -> Result<Share, Status> {
        let ShareLimits { all, user, others, what } = self.most;
        let mut taken = self.taken();
        let in_all = taken.masters + taken.others;
        if who.is_in(MASTERS) {
            if in_all >= all {
                return Err(refused(format!("{all} requests are {what}, the maximum of this server")));
            }
            taken.masters += 1;
            return Ok(Share { of: self.clone(), user: None });
        }
        if taken.users.get(&who.user).is_some_and(|has| *has >= user) {
            return Err(refused(format!(
                "{user} requests of {:?} are {what}, the maximum per user: end some of them",
                who.user
            )));
        }
        if taken.others >= others || in_all >= all {
            let rest = if others < all { ", and the rest is reserved for administrators" } else { "" };
            return Err(refused(format!("{in_all} requests are {what}{rest}")));
        }
        taken.others += 1;
        *taken.users.entry(who.user.clone()).or_default() += 1;
        Ok(Share { of: self.clone(), user: Some(who.user.clone()) })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        let Some(user) = &self.user else {
            taken.masters -= 1;
            return;
        };
        taken.others -= 1;
        match taken.users.get_mut(user) {
            Some(has) if *has > 1 => *has -= 1,
            _ => drop(taken.users.remove(user)),
        }
    }
}

fn refused(why: String) -> Status {
    let busy = Status::too_many_requests();
    Status { message: format!("{}: {why}", busy.message), ..busy }
}

#[cfg(test)]
mod tests {
    //! Tests of users that reach their limits, and of the reserve for administrators.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn no_user_gets_all_shares_and_some_are_reserved_for_administrators() {
        let shares = Shares::new(ShareLimits { all: 6, user: 2, others: 5, what: "being passed on" });
        let user = |name: &str| Identity::authenticated(name, []);
        let root = Identity::authenticated("root", [MASTERS.to_owned()]);
        let mut held = Vec::new();
        for name in ["a", "a", "b", "b", "c"] {
            held.push(shares.take(&user(name)).unwrap());
        }
        let own = shares.take(&user("a")).unwrap_err();
        assert_eq!((own.code, own.reason), (429, "TooManyRequests"));
        assert!(own.message.contains("2 requests of \"a\" are being passed"), "{own}");
        assert_eq!(own.details.unwrap()["retryAfterSeconds"], 1, "the rejection has a retry delay");
        let all = shares.take(&user("d")).unwrap_err();
        assert!(all.message.contains("the rest is reserved for administrators"), "{all}");
        held.push(shares.take(&root).unwrap());
        assert!(shares.take(&root).unwrap_err().message.contains("6 requests"));
        // A released unit can be taken again; users without units are forgotten.
        held.remove(0);
        drop(shares.take(&user("a")).unwrap());
        drop(held);
        let taken = shares.taken();
        assert!(taken.users.is_empty());
        assert_eq!((taken.masters, taken.others), (0, 0));
    }
}
