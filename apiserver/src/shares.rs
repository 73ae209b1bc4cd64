//! How much of something everybody may take at once, so that nobody has all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::identity::{Identity, MASTERS};
use crate::status::Status;

/// The most at once: of all together, of one user, and of all who are not administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Of all together.
    pub all: usize,
    /// Of one user.
    pub user: usize,
    /// Of all who are not in `system:masters`: the rest is for those who mend what is wrong, and for the master itself.
    pub others: usize,
    /// What requests are that have taken some, as a refusal says it: `waiting`.
    pub what: &'static str,
}

/// Who has taken how much.
#[derive(Debug)]
pub struct Shares {
    most: Most,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    masters: usize,
    others: usize,
    /// Of those who are no administrators; whoever has nothing is not in it.
    users: HashMap<String, usize>,
}

/// A place, which is given back when it goes.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    /// Nobody for an administrator.
    user: Option<String>,
}

impl Shares {
    /// Nothing is taken yet.
    pub fn new(most: Most) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes a place for that user.
    ///
    /// # Errors
    /// 429 when he has his share, or all have theirs.
    pub fn take(self: &Arc<Self>, who: &Identity) -> Result<Share, Status> {
        let Most { all, user, others, what } = self.most;
        let mut taken = self.taken();
        let in_all = taken.masters + taken.others;
        if who.is_in(MASTERS) {
            if in_all >= all {
                return Err(refused(format!(
                    "{all} requests are {what}, which is all that this master does at once"
                )));
            }
            taken.masters += 1;
            return Ok(Share { of: self.clone(), user: None });
        }
        if taken.users.get(&who.user).is_some_and(|has| *has >= user) {
            return Err(refused(format!(
                "{user} requests of {:?} are {what}, which is one user's share: end some of them",
                who.user
            )));
        }
        if taken.others >= others || in_all >= all {
            let rest = if others < all { ", and the rest is kept for administrators" } else { "" };
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
    //! Users who want all of it, and administrators who come afterwards.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn nobody_has_all_of_it_and_some_is_kept_for_administrators() {
        let shares = Shares::new(Most { all: 6, user: 2, others: 5, what: "being passed on" });
        let user = |name: &str| Identity::authenticated(name, []);
        let root = Identity::authenticated("root", [MASTERS.to_owned()]);
        let mut held = Vec::new();
        for name in ["a", "a", "b", "b", "c"] {
            held.push(shares.take(&user(name)).unwrap());
        }
        let own = shares.take(&user("a")).unwrap_err();
        assert_eq!((own.code, own.reason), (429, "TooManyRequests"));
        assert!(own.message.contains("2 requests of \"a\" are being passed"), "{own}");
        assert_eq!(own.details.unwrap()["retryAfterSeconds"], 1, "it is told when to come again");
        let all = shares.take(&user("d")).unwrap_err();
        assert!(all.message.contains("the rest is kept for administrators"), "{all}");
        held.push(shares.take(&root).unwrap());
        assert!(shares.take(&root).unwrap_err().message.contains("6 requests"));
        // Whoever ends one may begin another; nothing is kept of those who have nothing.
        held.remove(0);
        drop(shares.take(&user("a")).unwrap());
        drop(held);
        let taken = shares.taken();
        assert!(taken.users.is_empty());
        assert_eq!((taken.masters, taken.others), (0, 0));
    }
}
